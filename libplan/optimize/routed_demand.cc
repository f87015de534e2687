#include "libplan/optimize/routed_demand.h"

#include <algorithm>
#include <set>
#include <utility>

#include "libplan/base/error.h"

namespace plan {
namespace {

bool holds(const Demand& demand, const Atom& atom, DeviceId device) {
  const std::vector<DeviceId>& holders = demand.devices(atom.holders);
  return std::binary_search(holders.begin(), holders.end(), device);
}

}  // namespace

void validate(const RoutedDemand& routed, const Demand& demand) {
  std::set<std::pair<std::int32_t, DeviceId>> received;  // (part, device)
  for (std::size_t h = 0; h < routed.hops.size(); ++h) {
    const Hop& hop = routed.hops[h];
    const Part& part = routed.parts.at(static_cast<std::size_t>(hop.part));
    const Atom& atom = demand.atoms.at(static_cast<std::size_t>(part.atom));
    PLAN_CHECK(hop.sender != hop.receiver);
    if (hop.parent < 0) {
      PLAN_CHECK(holds(demand, atom, hop.sender));
    } else {
      PLAN_CHECK(static_cast<std::size_t>(hop.parent) < h);
      const Hop& parent = routed.hops[static_cast<std::size_t>(hop.parent)];
      PLAN_CHECK(parent.part == hop.part && parent.receiver == hop.sender &&
                 parent.round < hop.round);
    }
    PLAN_CHECK(!holds(demand, atom, hop.receiver));
    PLAN_CHECK(received.emplace(hop.part, hop.receiver).second);
  }
  std::vector<std::int64_t> routed_elems(demand.atoms.size(), 0);
  for (std::size_t p = 0; p < routed.parts.size(); ++p) {
    const Part& part = routed.parts[p];
    const Atom& atom = demand.atoms.at(static_cast<std::size_t>(part.atom));
    PLAN_CHECK(atom.box.contains(part.box) && !part.box.empty());
    routed_elems[static_cast<std::size_t>(part.atom)] += part.box.num_elements();
    for (const DeviceId needer : demand.devices(atom.needers)) {
      PLAN_CHECK(holds(demand, atom, needer) ||
                 received.contains({static_cast<std::int32_t>(p), needer}));
    }
  }
  for (std::size_t a = 0; a < demand.atoms.size(); ++a) {
    const Atom& atom = demand.atoms[a];
    const std::vector<DeviceId>& needers = demand.devices(atom.needers);
    const bool in_place = std::all_of(needers.begin(), needers.end(),
                                      [&](DeviceId needer) { return holds(demand, atom, needer); });
    PLAN_CHECK(in_place ? routed_elems[a] == 0 : routed_elems[a] == atom.box.num_elements());
  }
}

}  // namespace plan
