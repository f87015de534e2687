// lower: RoutedDemand -> Schedule. Every hop becomes slices of two storages, hops between one pair
// in one round become one message, every round becomes a window, and what is in place becomes a
// local copy, or an alias where a target storage has the geometry of a source storage.
#pragma once

#include <cstdint>

#include "libplan/demand/demand.h"
#include "libplan/layout/layout.h"
#include "libplan/optimize/routed_demand.h"
#include "libplan/schedule/ir.h"
#include "libplan/topology/topology.h"

namespace plan {

enum class Packing : std::uint8_t {
  Never,   // messages are lists of slices; the executor moves strided bytes itself
  Always,  // a message of more than one contiguous run goes through scratch at both ends
};

struct LowerOptions {
  Packing packing = Packing::Never;
  bool alias = true;  // let target storages take over equal source storages
  std::int32_t window_ops = 256;
};

// The result lacks what only the caller knows: request, digests, algorithm. Source storages are not
// freed by any window: they live until commit, so the switch can be rolled back until then.
ir::Schedule lower(const Demand& demand, const RoutedDemand& routed, const Layout& source,
                   const Layout& target, const Topology& topology, const LowerOptions& options);

}  // namespace plan
