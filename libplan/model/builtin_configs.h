// The texts of configs/*.json, embedded by embed_configs.py at build time.
#pragma once

#include <string_view>
#include <vector>

namespace plan {

struct BuiltinConfig {
  std::string_view name;  // file name without .json
  std::string_view json;
};

// Ascending by name.
const std::vector<BuiltinConfig>& builtin_configs();

}  // namespace plan
