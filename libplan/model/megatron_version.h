// Names of the Megatron-Core versions whose rules libplan knows.
#pragma once

#include <optional>
#include <string_view>

#include "libplan/model/transformer.h"

namespace plan {

// "0.11", "0.13", "0.20".
constexpr std::string_view name_of(MegatronVersion version) {
  switch (version) {
    case MegatronVersion::V011: return "0.11";
    case MegatronVersion::V013: return "0.13";
    case MegatronVersion::V020: break;
  }
  return "0.20";
}

// Accepts the names above and "newest", which is 0.20.
constexpr std::optional<MegatronVersion> megatron_version_from_name(std::string_view name) {
  if (name == "0.11") return MegatronVersion::V011;
  if (name == "0.13") return MegatronVersion::V013;
  if (name == "0.20" || name == "newest") return MegatronVersion::V020;
  return std::nullopt;
}

}  // namespace plan
