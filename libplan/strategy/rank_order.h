// The order string: which parallel dimension varies fastest over the ranks. One order serves two
// factorizations of the same ranks: the dense grid (tp, cp, dp, pp) and the expert grid (etp, ep,
// edp, pp), where "tp" stands for etp and "dp" for edp.
//
// Source: Megatron-LM's RankGenerator and initialize_model_parallel.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libplan/model/megatron_version.h"
#include "libplan/strategy/strategy.h"

namespace plan {

enum class Token : std::uint8_t { Tp, Cp, Ep, Dp, Pp };

std::string_view name_of(Token token);  // "tp", ...

// Sizes of one grid by Token.
using GridSizes = std::array<std::int64_t, 5>;

// What is wrong with an order, by strategy rule.
struct OrderFault {
  std::string rule;  // S203, S204, S205, S206 or S208
  std::string message;
  std::string fix;
};

// tp * cp * dp * pp, and etp * ep * edp * pp, of a strategy; dp and edp as large as fits (0 if the
// others exceed world_size), remainders are not looked at.
GridSizes dense_sizes(const Strategy& strategy);
GridSizes expert_sizes(const Strategy& strategy);

// The tokens of the order, lower-cased, fastest first; missing ones are appended (their size is 1).
// `fault` is set if Megatron refuses the order; then the tokens mean nothing.
struct RankOrder {
  std::vector<Token> tokens;
  std::optional<OrderFault> fault;
};
RankOrder resolve_order(const Strategy& strategy, MegatronVersion version);

}  // namespace plan
