// The one-hop baselines: every needer that lacks an atom gets it whole from one of its holders.
#include <algorithm>
#include <map>

#include "libplan/base/checked.h"
#include "libplan/optimize/optimize.h"

namespace plan {
namespace {

// Calls choose(atom, needer) for each atom and each needer that does not hold it.
template <class Choose>
RoutedDemand route_one_hop(const Demand& demand, Choose choose) {
  RoutedDemand routed;
  for (std::size_t a = 0; a < demand.atoms.size(); ++a) {
    const Atom& atom = demand.atoms[a];
    const std::vector<DeviceId>& holders = demand.devices(atom.holders);
    const auto part = static_cast<std::int32_t>(routed.parts.size());
    bool moves = false;
    for (const DeviceId needer : demand.devices(atom.needers)) {
      if (std::binary_search(holders.begin(), holders.end(), needer)) continue;
      routed.hops.push_back({part, choose(atom, needer), needer, -1, 0});
      moves = true;
    }
    if (moves) routed.parts.push_back({static_cast<std::int32_t>(a), atom.box});
  }
  return routed;
}

}  // namespace

RoutedDemand route_direct(const Demand& demand) {
  return route_one_hop(
      demand, [&](const Atom& atom, DeviceId) { return demand.devices(atom.holders).front(); });
}

RoutedDemand route_balanced(const Demand& demand, const Topology& topology) {
  std::map<DeviceId, NodeId> node_of;
  for (std::size_t n = 0; n < topology.nodes.size(); ++n) {
    for (const DeviceId device : topology.nodes[n].devices) {
      node_of[device] = NodeId(static_cast<std::int32_t>(n));
    }
  }
  std::map<DeviceId, std::int64_t> sent;  // bytes
  return route_one_hop(demand, [&](const Atom& atom, DeviceId needer) {
    const std::vector<DeviceId>& holders = demand.devices(atom.holders);
    const NodeId home = node_of.at(needer);
    const auto worse = [&](DeviceId a, DeviceId b) {  // true if b is the better sender
      const bool a_near = node_of.at(a) == home;
      const bool b_near = node_of.at(b) == home;
      if (a_near != b_near) return b_near;
      return sent[b] < sent[a];
    };
    DeviceId best = holders.front();
    for (const DeviceId holder : holders) {
      if (worse(best, holder)) best = holder;
    }
    sent[best] = checked_add(sent[best], num_bytes(atom));
    return best;
  });
}

}  // namespace plan
