// Where each rank of a strategy stands: its coordinates in the dense and in the expert grid, its
// place among the ranks that share optimizer state, and the groups that Megatron builds.
//
// Example: 8 ranks, tp = 2, dp = 4, order tp-cp-ep-dp-pp: rank 5 has tp 1 and dp 2; its dp group is
// {1, 3, 5, 7}.
//
// Source: Megatron-LM's parallel_state.py, all three versions; checked against dumped groups.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "libplan/model/megatron_version.h"
#include "libplan/strategy/rank_order.h"
#include "libplan/strategy/strategy.h"

namespace plan {

struct GridCoords {
  std::int32_t tp = 0, cp = 0, dp = 0, pp = 0;  // dense grid
  std::int32_t etp = 0, ep = 0, edp = 0;        // expert grid; its pp is the same
  std::int32_t dp_cp = 0;                       // index in the dp-cp group
  std::int32_t intra_dp_cp = 0;                 // index inside the optimizer instance, dense state
  std::int32_t dense_instance = 0;              // which instance
  std::int32_t intra_edp = 0;                   // likewise for experts, along the edp group
  std::int32_t expert_instance = 0;
  friend bool operator==(const GridCoords&, const GridCoords&) = default;
};

class RankGrid {
 public:
  // Error(BadInput) where Megatron refuses the sizes or the order, and where it builds a wrong
  // grid in silence (strategy rules S201-S206, S208, S601, S602).
  static RankGrid make(const Strategy& strategy, MegatronVersion version);

  std::int32_t world_size() const { return world_size_; }
  std::int32_t tp() const { return size(dense_, Token::Tp); }
  std::int32_t cp() const { return size(dense_, Token::Cp); }
  std::int32_t dp() const { return size(dense_, Token::Dp); }
  std::int32_t pp() const { return size(dense_, Token::Pp); }
  std::int32_t etp() const { return size(expert_, Token::Tp); }
  std::int32_t ep() const { return size(expert_, Token::Ep); }
  std::int32_t edp() const { return size(expert_, Token::Dp); }

  std::int32_t dp_cp_size() const { return dp() * cp(); }
  std::int32_t instances() const { return instances_; }
  // Ranks that share the optimizer state of dense parameters: dp * cp / instances.
  std::int32_t dense_shards() const { return dp_cp_size() / instances_; }
  // Ranks that share that of experts: edp / instances; 0.11 does not cut experts: edp.
  std::int32_t expert_shards() const { return edp() / expert_instances_; }

  // `rank` is in [0, world_size).
  GridCoords coords(std::int32_t rank) const;

  // All groups of a kind, as Megatron lists them; cost O(world_size). Kinds: tp, pp, cp, dp, dp-cp,
  // tp-pp, tp-cp, tp-dp, tp-dp-cp (dense grid); ep, etp, etp-ep, etp-ep-pp, edp (expert grid);
  // intra-dp-cp, intra-edp, inter-edp, instance (optimizer instances); embedding,
  // position-embedding. Error(BadInput) for another kind.
  std::vector<std::vector<std::int32_t>> groups(std::string_view kind) const;

 private:
  struct Axis {
    Token token;
    std::int32_t size;
    std::int32_t stride;
  };
  using Grid = std::vector<Axis>;  // fastest first

  static std::int32_t size(const Grid& grid, Token token);
  static std::int32_t coordinate(const Grid& grid, Token token, std::int32_t rank);
  static Grid make_grid(const std::vector<Token>& tokens, const GridSizes& sizes);
  std::vector<std::vector<std::int32_t>> groups_of(const Grid& grid,
                                                   const std::vector<Token>& tokens) const;
  std::vector<std::vector<std::int32_t>> inter_groups() const;
  std::vector<std::vector<std::int32_t>> instance_groups() const;

  std::int32_t world_size_ = 1;
  std::int32_t instances_ = 1;
  std::int32_t expert_instances_ = 1;
  bool inter_from_dense_ = false;
  Grid dense_, expert_;
};

}  // namespace plan
