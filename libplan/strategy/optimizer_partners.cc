#include "libplan/strategy/optimizer_partners.h"

#include <algorithm>

namespace plan {
namespace {

constexpr std::int64_t kMostPairs = std::int64_t{1} << 20;
constexpr std::int32_t kMostListed = 8;

}  // namespace

std::optional<PartnerMismatch> find_partner_mismatch(const RankGrid& grid) {
  std::int64_t pairs = 0;
  for (std::int32_t rank = 0; rank < grid.world_size() && pairs < kMostPairs; ++rank, ++pairs) {
    const GridCoords c = grid.coords(rank);
    if (c.dense_instance != 0) continue;  // each set of partners once, from its first rank
    bool same = true;
    for (std::int32_t i = 0; i < grid.instances() && same && pairs < kMostPairs; ++i, ++pairs) {
      same = grid.dp_cp_rank(rank, c.intra_dp_cp + i * grid.dense_shards()) ==
             grid.edp_rank(rank, c.intra_edp + i * grid.expert_shards());
    }
    if (same) continue;
    PartnerMismatch mismatch;
    for (std::int32_t i = 0; i < std::min(grid.instances(), kMostListed); ++i) {
      mismatch.dense.push_back(grid.dp_cp_rank(rank, c.intra_dp_cp + i * grid.dense_shards()));
      mismatch.expert.push_back(grid.edp_rank(rank, c.intra_edp + i * grid.expert_shards()));
    }
    return mismatch;
  }
  return {};
}

}  // namespace plan
