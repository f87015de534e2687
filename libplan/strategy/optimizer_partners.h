// Which ranks hold copies of the same optimizer state when there are several optimizer instances.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libplan/strategy/rank_grid.h"

namespace plan {

// A rank whose partners for dense state are not its partners for experts; up to eight of each are
// listed, ascending.
struct PartnerMismatch {
  std::vector<std::int32_t> dense;
  std::vector<std::int32_t> expert;
};

// Cuts each dp-cp group and each edp group into the instances' runs and compares who stands at
// equal places. Looks at ranks in ascending order until a mismatch, or 2^20 pairs: layouts are
// regular, so that a mismatch shows at the lowest ranks.
std::optional<PartnerMismatch> find_partner_mismatch(const RankGrid& grid);

}  // namespace plan
