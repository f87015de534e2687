// optimize: Demand -> RoutedDemand. One pass per file; pipeline.cc lists them in order.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "libplan/demand/demand.h"
#include "libplan/optimize/routed_demand.h"
#include "libplan/topology/topology.h"

namespace plan {

enum class Algorithm : std::uint8_t {
  Direct,    // the lowest living holder serves everyone
  Balanced,  // a holder on the needer's node if there is one, then the one with the least sent so
             // far
};

// Names as on the command line; Error(Usage) lists the known ones.
Algorithm algorithm_from_name(std::string_view name);
std::string_view name_of(Algorithm algorithm);

struct OptimizeOptions {
  Algorithm algorithm = Algorithm::Balanced;
  std::int32_t window_ops = 256;  // most sends plus receives of one device in one round, at least 2
};

RoutedDemand optimize(const Demand& demand, const Topology& topology,
                      const OptimizeOptions& options);

// The passes. Each keeps what validate() checks.

// Every needer that lacks an atom gets it whole from one holder, in one hop of round 0.
RoutedDemand route_direct(const Demand& demand);
RoutedDemand route_balanced(const Demand& demand, const Topology& topology);

// Renumbers rounds so that no device has more than `window_ops` messages in one round and every hop
// stays after its parent. First fit, pairs in the order of a rotation, so that ports fill evenly.
RoutedDemand assign_rounds(RoutedDemand routed, std::int32_t window_ops);

}  // namespace plan
