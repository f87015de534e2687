// Demand: what must move. source Layout x target Layout -> atoms with their holders and needers.
//
// An atom is a maximal Box of one tensor, for one group of states, with one set of living holders
// and one set of needers. Atoms partition exactly what the target needs. Example: 4 x 4 tensor,
// source cut by rows over devices 0 and 1, target by columns: four atoms of 2 x 2, two of them
// already in place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libplan/base/box.h"
#include "libplan/base/ids.h"
#include "libplan/layout/layout.h"
#include "libplan/topology/topology.h"

namespace plan {

// States that have one geometry in both layouts: they are allocated lane beside lane in every
// storage that has any of them, with elements of one size.
struct StateGroup {
  std::vector<StateId> states;  // ascending, at least one
};

using StateGroupId = Id<struct StateGroupTag>;  // index into Demand::groups
using DeviceSetId = Id<struct DeviceSetTag>;    // index into Demand::device_sets

struct Atom {
  TensorId tensor;
  StateGroupId group;
  Box box;
  DeviceSetId holders;  // living; empty only in `lost` and `fills`
  DeviceSetId needers;
  std::int64_t bytes_per_elem = 0;  // summed over the group's states
};

// All atoms with one (holders, needers) pair, padding apart. Any cut inside a class is allowed.
struct AtomClass {
  DeviceSetId holders;
  DeviceSetId needers;
  bool padding = false;
  std::int64_t bytes = 0;  // over all lanes
};

struct Demand {
  std::vector<StateGroup> groups;
  std::vector<std::vector<DeviceId>> device_sets;  // each ascending; set 0 is the empty set
  std::vector<Atom> atoms;                         // ascending by group, tensor, box
  std::vector<AtomClass> classes;                  // ascending by holders, needers, padding
  std::vector<Atom> fills;                         // vocabulary padding that no one holds
  std::vector<Atom> lost;                          // needed, and no living device holds it

  const std::vector<DeviceId>& devices(DeviceSetId set) const {
    return device_sets[static_cast<std::size_t>(set.value)];
  }
};

// Both layouts have been unified (unify()), so that equal ids mean equal tensors and states.
// Devices that are dead in the topology hold nothing; a dead needer is Error(BadInput). Cost:
// O(shards log shards) plus the number of cells of the overlay.
Demand build_demand(const Layout& source, const Layout& target, const Topology& topology);

std::int64_t num_bytes(const Atom& atom);

// Error(Infeasible) that names tensor, box, states and the dead devices that held it, for the first
// lost atoms; does nothing if none is lost.
void require_nothing_lost(const Demand& demand, const Layout& source, const Topology& topology);

// What any schedule must do, in elements of one lane of one state group (vocabulary padding
// uncounted).
struct Traffic {
  std::int64_t needed = 0;    // held by the target, summed over devices
  std::int64_t local = 0;     // of these, already on the device
  std::int64_t received = 0;  // needed - local - lost
  std::int64_t lost = 0;
  std::int64_t max_received_by_one_device = 0;
  std::int64_t least_into_nodes = 0;  // entering nodes, each element once per node (B2)
  std::int64_t max_least_into_one_node = 0;
};
Traffic traffic_of_group(const Demand& demand, const Layout& source, const Topology& topology,
                         StateGroupId group);

}  // namespace plan
