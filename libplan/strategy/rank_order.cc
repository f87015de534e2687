#include "libplan/strategy/rank_order.h"

#include <algorithm>

#include "libplan/base/json_tree.h"

namespace plan {
namespace {

constexpr std::array<Token, 5> kTokens{Token::Tp, Token::Cp, Token::Ep, Token::Dp, Token::Pp};

std::int64_t size_of(const GridSizes& sizes, Token token) {
  return sizes[static_cast<std::size_t>(token)];
}

std::string lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return text;
}

OrderFault unknown_token(const std::string& word, std::size_t position) {
  return {"S203",
          "order: token " + json_quote(word) + " at position " + std::to_string(position) +
              " is unknown, expected tp, cp, ep, dp or pp",
          "join each of tp, cp, ep, dp, pp once by \"-\""};
}

// S203: reads the tokens.
std::optional<OrderFault> split_order(const std::string& order, MegatronVersion version,
                                      std::vector<Token>& tokens) {
  const std::string text = lower_case(order);
  std::vector<std::string> seen;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('-', at), text.size());
    const std::string word = text.substr(at, end - at);
    const std::string written = order.substr(at, end - at);
    at = end + 1;
    const auto known = std::find_if(kTokens.begin(), kTokens.end(),
                                    [&](Token token) { return name_of(token) == word; });
    // The newest version has one more dimension, of size 1 here.
    const bool remat = word == "gtp_remat" && version == MegatronVersion::V020;
    if (known == kTokens.end() && !remat) return unknown_token(written, seen.size());
    if (std::find(seen.begin(), seen.end(), word) != seen.end()) {
      return OrderFault{"S203",
                        "order: token " + json_quote(written) + " at position " +
                            std::to_string(seen.size()) + " is given twice, expected once",
                        "drop one of the two"};
    }
    seen.push_back(word);
    if (known != kTokens.end()) tokens.push_back(*known);
  }
  return {};
}

// S208 and S204; appends the tokens of size 1.
std::optional<OrderFault> complete_order(const Strategy& s, MegatronVersion version,
                                         const GridSizes& dense, const GridSizes& expert,
                                         std::vector<Token>& tokens) {
  const auto missing = [&](Token token) {
    return std::find(tokens.begin(), tokens.end(), token) == tokens.end();
  };
  for (const Token token : kTokens) {
    if (!missing(token)) continue;
    const std::int64_t size = std::max(size_of(dense, token), size_of(expert, token));
    if (size > 1) {
      return OrderFault{"S204",
                        "order " + json_quote(s.order) + " lacks " + json_quote(name_of(token)) +
                            ", whose size is " + std::to_string(size),
                        "insert " + json_quote(name_of(token))};
    }
  }
  if (missing(Token::Tp) && version == MegatronVersion::V020) {
    return OrderFault{"S208",
                      "order " + json_quote(s.order) +
                          " lacks \"tp\", which the newest Megatron requires even at size 1",
                      "write all five tokens"};
  }
  for (const Token token : {Token::Tp, Token::Pp, Token::Dp, Token::Ep, Token::Cp}) {
    if (missing(token)) tokens.push_back(token);
  }
  return {};
}

std::int64_t stride_of(const std::vector<Token>& tokens, const GridSizes& sizes, Token wanted) {
  std::int64_t stride = 1;
  for (const Token token : tokens) {
    if (token == wanted) break;
    stride *= size_of(sizes, token);
  }
  return stride;
}

// S205 and S206: both grids must have the same pipelines.
std::optional<OrderFault> compare_pipelines(const Strategy& s, const GridSizes& dense,
                                            const GridSizes& expert,
                                            const std::vector<Token>& tokens) {
  if (s.pipeline_model_parallel_size == 1) return {};
  const std::int64_t dp = size_of(dense, Token::Dp);
  const std::int64_t edp = size_of(expert, Token::Dp);
  if (!s.order.ends_with("pp") && dp != edp) {
    return OrderFault{"S205",
                      "order must end in pp, or expert DP (" + std::to_string(edp) +
                          ") equal DP (" + std::to_string(dp) + "); found " + json_quote(s.order),
                      "end the order in pp, in lower case; or choose sizes with etp*ep = tp*cp"};
  }
  const std::int64_t dense_stride = stride_of(tokens, dense, Token::Pp);
  const std::int64_t expert_stride = stride_of(tokens, expert, Token::Pp);
  if (dense_stride != expert_stride) {
    return OrderFault{"S206",
                      "ranks of one pipeline are " + std::to_string(dense_stride) +
                          " apart for dense layers, " + std::to_string(expert_stride) +
                          " for experts; both must be equal",
                      "end the order in pp"};
  }
  return {};
}

GridSizes sizes_of(std::int64_t tp, std::int64_t cp, std::int64_t ep, std::int64_t pp,
                   std::int64_t world) {
  // Each factor is below 2^31 and is dropped once the product exceeds the world size, so this
  // cannot overflow.
  std::int64_t product = tp;
  for (const std::int64_t factor : {cp, ep, pp}) {
    if (product <= world) product *= factor;
  }
  return {tp, cp, ep, product <= world ? world / product : 0, pp};
}

}  // namespace

std::string_view name_of(Token token) {
  switch (token) {
    case Token::Tp: return "tp";
    case Token::Cp: return "cp";
    case Token::Ep: return "ep";
    case Token::Dp: return "dp";
    case Token::Pp: break;
  }
  return "pp";
}

GridSizes dense_sizes(const Strategy& s) {
  return sizes_of(s.tensor_model_parallel_size, s.context_parallel_size, 1,
                  s.pipeline_model_parallel_size, s.world_size);
}

GridSizes expert_sizes(const Strategy& s) {
  return sizes_of(s.etp(), 1, s.expert_model_parallel_size, s.pipeline_model_parallel_size,
                  s.world_size);
}

RankOrder resolve_order(const Strategy& s, MegatronVersion version) {
  RankOrder order;
  const GridSizes dense = dense_sizes(s);
  const GridSizes expert = expert_sizes(s);
  order.fault = split_order(s.order, version, order.tokens);
  if (!order.fault) order.fault = complete_order(s, version, dense, expert, order.tokens);
  if (!order.fault) order.fault = compare_pipelines(s, dense, expert, order.tokens);
  return order;
}

}  // namespace plan
