#include "libplan/demand/state_groups.h"

#include <algorithm>
#include <set>

#include "libplan/base/checked.h"

namespace plan {
namespace {

std::set<std::vector<Lane>> lane_sets(const Layout& layout) {
  std::set<std::vector<Lane>> sets;
  const std::vector<Lane>* last = nullptr;
  for (const DeviceShards& device : layout.devices) {
    for (const Storage& storage : device.storages) {
      if (last == nullptr || *last != storage.lanes) sets.insert(storage.lanes);
      last = &storage.lanes;
    }
  }
  return sets;
}

std::int32_t position(const std::vector<Lane>& lanes, StateId state) {
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i].state == state) return static_cast<std::int32_t>(i);
  }
  return -1;
}

// True if `next` stands right behind `state` wherever either is, with elements of one size.
bool neighbours(const std::set<std::vector<Lane>>& sets, StateId state, StateId next) {
  return std::all_of(sets.begin(), sets.end(), [&](const std::vector<Lane>& lanes) {
    const std::int32_t a = position(lanes, state);
    const std::int32_t b = position(lanes, next);
    if (a < 0 || b < 0) return a < 0 && b < 0;
    return b == a + 1 && size_bytes(lanes[static_cast<std::size_t>(a)].dtype) ==
                             size_bytes(lanes[static_cast<std::size_t>(b)].dtype);
  });
}

}  // namespace

std::int32_t lane_of(const Storage& storage, StateId state) {
  return position(storage.lanes, state);
}

bool has_lane(const Storage& storage, StateId state) { return lane_of(storage, state) >= 0; }

std::int64_t bytes_per_elem(const Storage& storage, const StateGroup& group) {
  const auto lane = static_cast<std::size_t>(lane_of(storage, group.states.front()));
  return checked_mul(size_bytes(storage.lanes[lane].dtype),
                     static_cast<std::int64_t>(group.states.size()));
}

std::vector<StateGroup> state_groups(const Layout& source, const Layout& target) {
  std::set<std::vector<Lane>> sets = lane_sets(target);
  std::set<StateId> needed;
  for (const std::vector<Lane>& lanes : sets) {
    for (const Lane& lane : lanes) needed.insert(lane.state);
  }
  sets.merge(lane_sets(source));

  std::vector<StateGroup> groups;
  for (const StateId state : needed) {
    if (!groups.empty() && neighbours(sets, groups.back().states.back(), state)) {
      groups.back().states.push_back(state);
    } else {
      groups.push_back({{state}});
    }
  }
  return groups;
}

}  // namespace plan
