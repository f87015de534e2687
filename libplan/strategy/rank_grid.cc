#include "libplan/strategy/rank_grid.h"

#include <algorithm>
#include <string>

#include "libplan/base/error.h"
#include "libplan/base/json_tree.h"

namespace plan {
namespace {

using Groups = std::vector<std::vector<std::int32_t>>;

void require_divides(std::int64_t divisor, std::int64_t world, const std::string& what) {
  if (divisor <= world && world % divisor == 0) return;
  throw Error(ErrorCode::BadInput, what + " = " + std::to_string(divisor) +
                                       " must divide world_size, found " + std::to_string(world));
}

// Product of three sizes below 2^31, capped above any world size.
std::int64_t product_of(std::int64_t a, std::int64_t b, std::int64_t c) {
  constexpr std::int64_t kCap = std::int64_t{1} << 31;
  return std::min(std::min(a * b, kCap) * c, kCap);
}

// Each group in runs of equal length, in order.
Groups cut(const Groups& groups, std::int32_t parts) {
  Groups runs;
  for (const std::vector<std::int32_t>& group : groups) {
    const std::size_t length = group.size() / static_cast<std::size_t>(parts);
    for (std::size_t at = 0; at < group.size(); at += length) {
      runs.emplace_back(group.begin() + static_cast<std::ptrdiff_t>(at),
                        group.begin() + static_cast<std::ptrdiff_t>(at + length));
    }
  }
  return runs;
}

}  // namespace

RankGrid RankGrid::make(const Strategy& s, MegatronVersion version) {
  const std::int64_t world = s.world_size;
  require_divides(product_of(s.tensor_model_parallel_size, s.pipeline_model_parallel_size,
                             s.context_parallel_size),
                  world, "tp*pp*cp");
  require_divides(product_of(s.etp(), s.expert_model_parallel_size, s.pipeline_model_parallel_size),
                  world, "etp*ep*pp");
  const RankOrder order = resolve_order(s, version);
  if (order.fault) throw Error(ErrorCode::BadInput, order.fault->message + "; " + order.fault->fix);

  RankGrid grid;
  grid.world_size_ = s.world_size;
  grid.dense_ = make_grid(order.tokens, dense_sizes(s));
  grid.expert_ = make_grid(order.tokens, expert_sizes(s));
  grid.instances_ = s.num_distributed_optimizer_instances;
  const bool cuts_experts = version != MegatronVersion::V011;
  grid.expert_instances_ = cuts_experts ? grid.instances_ : 1;
  grid.inter_from_dense_ = !cuts_experts;
  if (grid.dp_cp_size() % grid.instances_ != 0) {
    throw Error(ErrorCode::BadInput, std::to_string(grid.instances_) +
                                         " optimizer instances must divide dp*cp = " +
                                         std::to_string(grid.dp_cp_size()));
  }
  if (grid.edp() % grid.expert_instances_ != 0) {
    throw Error(ErrorCode::BadInput,
                std::to_string(grid.instances_) +
                    " optimizer instances must divide expert DP = " + std::to_string(grid.edp()));
  }
  return grid;
}

RankGrid::Grid RankGrid::make_grid(const std::vector<Token>& tokens, const GridSizes& sizes) {
  Grid grid;
  std::int32_t stride = 1;
  for (const Token token : tokens) {
    const auto extent = static_cast<std::int32_t>(sizes[static_cast<std::size_t>(token)]);
    grid.push_back({token, extent, stride});
    stride *= extent;
  }
  return grid;
}

std::int32_t RankGrid::size(const Grid& grid, Token token) {
  for (const Axis& axis : grid) {
    if (axis.token == token) return axis.size;
  }
  return 1;
}

std::int32_t RankGrid::coordinate(const Grid& grid, Token token, std::int32_t rank) {
  for (const Axis& axis : grid) {
    if (axis.token == token) return rank / axis.stride % axis.size;
  }
  return 0;
}

GridCoords RankGrid::coords(std::int32_t rank) const {
  PLAN_CHECK(rank >= 0 && rank < world_size_);
  GridCoords c;
  c.tp = coordinate(dense_, Token::Tp, rank);
  c.cp = coordinate(dense_, Token::Cp, rank);
  c.dp = coordinate(dense_, Token::Dp, rank);
  c.pp = coordinate(dense_, Token::Pp, rank);
  c.etp = coordinate(expert_, Token::Tp, rank);
  c.ep = coordinate(expert_, Token::Ep, rank);
  c.edp = coordinate(expert_, Token::Dp, rank);
  // Inside a group, the axis that comes first in the order varies fastest.
  std::int32_t weight = 1;
  for (const Axis& axis : dense_) {
    if (axis.token != Token::Cp && axis.token != Token::Dp) continue;
    c.dp_cp += weight * (axis.token == Token::Cp ? c.cp : c.dp);
    weight *= axis.size;
  }
  c.intra_dp_cp = c.dp_cp % dense_shards();
  c.dense_instance = c.dp_cp / dense_shards();
  c.intra_edp = c.edp % expert_shards();
  c.expert_instance = c.edp / expert_shards();
  return c;
}

// The ranks that agree on every token outside `tokens`; group k decomposes over those, first token
// fastest.
Groups RankGrid::groups_of(const Grid& grid, const std::vector<Token>& tokens) const {
  std::vector<std::int32_t> inside{0};
  std::vector<std::int32_t> outside{0};
  for (const Axis& axis : grid) {
    const bool member = std::find(tokens.begin(), tokens.end(), axis.token) != tokens.end();
    std::vector<std::int32_t>& offsets = member ? inside : outside;
    const std::vector<std::int32_t> before = offsets;
    offsets.clear();
    for (std::int32_t i = 0; i < axis.size; ++i) {
      for (const std::int32_t offset : before) offsets.push_back(offset + i * axis.stride);
    }
  }
  Groups groups;
  for (const std::int32_t base : outside) {
    std::vector<std::int32_t>& group = groups.emplace_back();
    for (const std::int32_t offset : inside) group.push_back(base + offset);
  }
  return groups;
}

// Ranks at the same place in all instances.
Groups RankGrid::inter_groups() const {
  const Groups whole = groups(inter_from_dense_ ? "dp-cp" : "edp");
  Groups inter;
  for (const std::vector<std::int32_t>& group : whole) {
    const std::size_t length = group.size() / static_cast<std::size_t>(instances_);
    for (std::size_t i = 0; i < length; ++i) {
      std::vector<std::int32_t>& partners = inter.emplace_back();
      for (std::size_t at = i; at < group.size(); at += length) partners.push_back(group[at]);
    }
  }
  return inter;
}

Groups RankGrid::instance_groups() const {
  const Groups model = groups_of(expert_, {Token::Tp, Token::Ep, Token::Pp});
  const auto length = model.size() / static_cast<std::size_t>(instances_);
  Groups instances;
  for (std::size_t i = 0; i < model.size(); ++i) {
    if (i % length == 0) instances.emplace_back();
    instances.back().insert(instances.back().end(), model[i].begin(), model[i].end());
  }
  return instances;
}

Groups RankGrid::groups(std::string_view kind) const {
  struct Kind {
    std::string_view name;
    bool expert;
    std::vector<Token> tokens;
  };
  using enum Token;
  const std::vector<Kind> kinds{{"tp", false, {Tp}},
                                {"pp", false, {Pp}},
                                {"cp", false, {Cp}},
                                {"dp", false, {Dp}},
                                {"dp-cp", false, {Dp, Cp}},
                                {"tp-pp", false, {Tp, Pp}},
                                {"tp-cp", false, {Tp, Cp}},
                                {"tp-dp", false, {Tp, Dp}},
                                {"tp-dp-cp", false, {Tp, Dp, Cp}},
                                {"ep", true, {Ep}},
                                {"etp", true, {Tp}},
                                {"etp-ep", true, {Tp, Ep}},
                                {"etp-ep-pp", true, {Tp, Ep, Pp}},
                                {"edp", true, {Dp}}};
  for (const Kind& known : kinds) {
    if (known.name == kind) return groups_of(known.expert ? expert_ : dense_, known.tokens);
  }
  if (kind == "intra-dp-cp") return cut(groups("dp-cp"), instances_);
  if (kind == "intra-edp") return cut(groups("edp"), expert_instances_);
  if (kind == "inter-edp") return inter_groups();
  if (kind == "instance") return instance_groups();
  if (kind == "embedding" || kind == "position-embedding") {
    Groups ends = groups("pp");
    for (std::vector<std::int32_t>& group : ends) {
      const bool both = kind == "embedding" && group.size() > 1;
      group = both ? std::vector{group.front(), group.back()} : std::vector{group.front()};
    }
    return ends;
  }
  throw Error(ErrorCode::BadInput, "no kind of group is called " + json_quote(kind));
}

}  // namespace plan
