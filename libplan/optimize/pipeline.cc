#include <algorithm>
#include <array>
#include <string>

#include "libplan/base/error.h"
#include "libplan/optimize/optimize.h"

namespace plan {
namespace {

struct AlgorithmRow {
  Algorithm algorithm;
  std::string_view name;
};
constexpr std::array kAlgorithms = {
    AlgorithmRow{Algorithm::Direct, "direct"},
    AlgorithmRow{Algorithm::Balanced, "balanced"},
};

RoutedDemand route(const Demand& demand, const Topology& topology, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::Direct: return route_direct(demand);
    case Algorithm::Balanced: return route_balanced(demand, topology);
  }
  throw InternalError("unknown algorithm");
}

}  // namespace

Algorithm algorithm_from_name(std::string_view name) {
  std::string known;
  for (const AlgorithmRow& row : kAlgorithms) {
    if (row.name == name) return row.algorithm;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw Error(ErrorCode::Usage,
              "--algorithm: expected one of " + known + ", found \"" + std::string(name) + "\"");
}

std::string_view name_of(Algorithm algorithm) {
  const auto row = std::find_if(kAlgorithms.begin(), kAlgorithms.end(),
                                [&](const AlgorithmRow& r) { return r.algorithm == algorithm; });
  PLAN_CHECK(row != kAlgorithms.end());
  return row->name;
}

RoutedDemand optimize(const Demand& demand, const Topology& topology,
                      const OptimizeOptions& options) {
  RoutedDemand routed = route(demand, topology, options.algorithm);
  routed = assign_rounds(std::move(routed), options.window_ops);
  validate(routed, demand);
  return routed;
}

}  // namespace plan
