// Which states can share their geometry, and therefore their slices, in a switch.
#pragma once

#include <vector>

#include "libplan/demand/demand.h"
#include "libplan/layout/layout.h"

namespace plan {

bool has_lane(const Storage& storage, StateId state);

// Position of the state among the storage's lanes; -1 if it has none.
std::int32_t lane_of(const Storage& storage, StateId state);

// Bytes of one element of the storage, summed over the group's states.
std::int64_t bytes_per_elem(const Storage& storage, const StateGroup& group);

// The states that the target holds, in groups: two states are in one group if every storage of both
// layouts has both of them, on neighbouring lanes of one element size, or neither. Ascending.
std::vector<StateGroup> state_groups(const Layout& source, const Layout& target);

}  // namespace plan
