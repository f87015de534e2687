// A RoutedDemand says which device sends each atom to whom, in which round. Its hops may pass
// through relays: devices that receive a part only to forward it, or that need it and forward it as
// well.
#pragma once

#include <cstdint>
#include <vector>

#include "libplan/base/box.h"
#include "libplan/base/ids.h"
#include "libplan/demand/demand.h"

namespace plan {

// A box of an atom that travels as one. Parts of an atom do not overlap.
struct Part {
  std::int32_t atom = 0;  // index into Demand::atoms
  Box box;
};

// One transfer of one part. Invariants (checked by validate()):
// * parent is -1 and the sender holds the atom, or parent is an earlier hop of the same part whose
//   receiver is this hop's sender and whose round is smaller
// * no device receives a part twice, nor one that it holds
// * every needer that does not hold the atom receives every part of it
struct Hop {
  std::int32_t part = 0;
  DeviceId sender;
  DeviceId receiver;
  std::int32_t parent = -1;
  std::int32_t round =
      0;  // messages of one round may run side by side; a relay sends in a later one
};

struct RoutedDemand {
  std::vector<Part> parts;  // ascending by atom, box
  std::vector<Hop> hops;    // ascending by part; a parent before its children
};

// InternalError if an invariant above is broken.
void validate(const RoutedDemand& routed, const Demand& demand);

}  // namespace plan
