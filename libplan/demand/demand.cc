#include "libplan/demand/demand.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "libplan/base/checked.h"
#include "libplan/base/error.h"
#include "libplan/demand/overlay.h"
#include "libplan/demand/state_groups.h"

namespace plan {
namespace {

// One shard of one device, as far as demand is concerned.
struct Held {
  StateGroupId group;
  TensorId tensor;
  Box box;
  bool target = false;
  DeviceId device;
  std::int64_t bytes_per_elem = 0;
  friend auto operator<=>(const Held&, const Held&) = default;
};

class DeviceSets {
 public:
  DeviceSets() { intern({}); }

  DeviceSetId intern(std::vector<DeviceId> devices) {
    const auto [at, inserted] =
        ids_.try_emplace(std::move(devices), DeviceSetId(static_cast<std::int32_t>(ids_.size())));
    if (inserted) order_.push_back(&at->first);
    return at->second;
  }
  const std::vector<DeviceId>& get(DeviceSetId id) const {
    return *order_[static_cast<std::size_t>(id.value)];
  }
  std::vector<std::vector<DeviceId>> take() const {
    std::vector<std::vector<DeviceId>> sets;
    for (const std::vector<DeviceId>* set : order_) sets.push_back(*set);
    return sets;
  }

 private:
  std::map<std::vector<DeviceId>, DeviceSetId> ids_;  // node-based: keys do not move
  std::vector<const std::vector<DeviceId>*> order_;
};

void append_held(const Layout& layout, bool target, const std::vector<StateGroup>& groups,
                 std::vector<Held>& held) {
  for (const DeviceShards& device : layout.devices) {
    for (const Storage& storage : device.storages) {
      for (std::size_t g = 0; g < groups.size(); ++g) {
        if (!has_lane(storage, groups[g].states.front())) continue;
        const std::int64_t bytes = bytes_per_elem(storage, groups[g]);
        for (const Shard& shard : storage.shards) {
          held.push_back({StateGroupId(static_cast<std::int32_t>(g)), shard.tensor, shard.box,
                          target, device.device, bytes});
        }
      }
    }
  }
}

// Boxes of one tensor and group, each with the devices that hold or need it.
struct TensorBoxes {
  std::vector<Box> boxes;
  std::vector<bool> target;
  std::vector<std::vector<DeviceId>> devices;
};

TensorBoxes collect(const std::vector<Held>& held, std::size_t begin, std::size_t end) {
  TensorBoxes result;
  for (std::size_t i = begin; i < end; ++i) {
    const Held& entry = held[i];
    const bool same =
        i > begin && entry.box == held[i - 1].box && entry.target == held[i - 1].target;
    if (!same) {
      result.boxes.push_back(entry.box);
      result.target.push_back(entry.target);
      result.devices.emplace_back();
    }
    std::vector<DeviceId>& devices = result.devices.back();
    if (devices.empty() || devices.back() != entry.device) devices.push_back(entry.device);
  }
  return result;
}

std::vector<DeviceId> union_of(const TensorBoxes& boxes, const OverlayCell& cell, bool target) {
  std::vector<DeviceId> devices;
  for (const std::int32_t member : cell.members) {
    const auto m = static_cast<std::size_t>(member);
    if (boxes.target[m] != target) continue;
    devices.insert(devices.end(), boxes.devices[m].begin(), boxes.devices[m].end());
  }
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

// Neighbouring cells can differ in the boxes they lie in and still have the same devices; this
// merges them along the first axis where that gives a box, so that atoms are maximal.
void merge_into(std::vector<Atom>& atoms, std::size_t first, Atom atom) {
  if (atoms.size() > first) {
    Atom& last = atoms.back();
    if (last.holders == atom.holders && last.needers == atom.needers) {
      int differing = -1;
      bool mergeable = true;
      for (int axis = 0; axis < atom.box.count; ++axis) {
        if (last.box[axis] == atom.box[axis]) continue;
        mergeable = mergeable && differing < 0 && last.box[axis].end == atom.box[axis].begin;
        differing = axis;
      }
      if (mergeable && differing >= 0) {
        last.box[differing].end = atom.box[differing].end;
        return;
      }
    }
  }
  atoms.push_back(atom);
}

std::vector<AtomClass> classes_of(const Demand& demand, const Layout& target) {
  std::map<std::tuple<DeviceSetId, DeviceSetId, bool>, std::int64_t> bytes;
  for (const Atom& atom : demand.atoms) {
    const bool padding = target.tensors[static_cast<std::size_t>(atom.tensor.value)].padding;
    std::int64_t& sum = bytes[{atom.holders, atom.needers, padding}];
    sum = checked_add(sum, num_bytes(atom));
  }
  std::vector<AtomClass> classes;
  for (const auto& [key, sum] : bytes) {
    classes.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), sum});
  }
  return classes;
}

void require_equal_width(const Held& a, const Held& b, const Layout& layout) {
  if (a.bytes_per_elem == b.bytes_per_elem) return;
  throw Error(ErrorCode::Unsupported,
              "expected elements of one size in every storage of a tensor, found " +
                  std::to_string(a.bytes_per_elem) + " and " + std::to_string(b.bytes_per_elem) +
                  " bytes (all its states together)",
              layout.tensors[static_cast<std::size_t>(a.tensor.value)].name);
}

void require_living_needers(const Layout& target, const Topology& topology) {
  for (const DeviceShards& device : target.devices) {
    if (topology.is_dead(device.device) && !device.storages.empty()) {
      throw Error(ErrorCode::BadInput, "device " + std::to_string(device.device.value) +
                                           " is dead and cannot be a rank of the target strategy; "
                                           "leave it out of the target's \"ranks\"");
    }
  }
}

}  // namespace

std::int64_t num_bytes(const Atom& atom) {
  return checked_mul(atom.box.num_elements(), atom.bytes_per_elem);
}

Demand build_demand(const Layout& source, const Layout& target, const Topology& topology) {
  require_living_needers(target, topology);
  Demand demand;
  demand.groups = state_groups(source, target);
  std::vector<Held> held;
  append_held(source, false, demand.groups, held);
  append_held(target, true, demand.groups, held);
  std::sort(held.begin(), held.end());

  DeviceSets sets;
  for (std::size_t begin = 0; begin < held.size();) {
    std::size_t end = begin;
    while (end < held.size() && held[end].group == held[begin].group &&
           held[end].tensor == held[begin].tensor) {
      require_equal_width(held[begin], held[end], target);
      ++end;
    }
    const TensorBoxes boxes = collect(held, begin, end);
    const bool padding = target.tensors[static_cast<std::size_t>(held[begin].tensor.value)].padding;
    const std::size_t first_atom = demand.atoms.size();
    for (const OverlayCell& cell : overlay(boxes.boxes)) {
      const DeviceSetId needers = sets.intern(union_of(boxes, cell, true));
      if (sets.get(needers).empty()) continue;
      std::vector<DeviceId> living = union_of(boxes, cell, false);
      std::erase_if(living, [&](DeviceId device) { return topology.is_dead(device); });
      const bool held_by_none = living.empty();
      const Atom atom{held[begin].tensor,
                      held[begin].group,
                      cell.box,
                      sets.intern(std::move(living)),
                      needers,
                      held[begin].bytes_per_elem};
      if (!held_by_none) {
        merge_into(demand.atoms, first_atom, atom);
      } else {
        (padding ? demand.fills : demand.lost).push_back(atom);
      }
    }
    begin = end;
  }
  demand.device_sets = sets.take();
  demand.classes = classes_of(demand, target);
  return demand;
}

void require_nothing_lost(const Demand& demand, const Layout& source, const Topology& topology) {
  if (demand.lost.empty()) return;
  constexpr std::size_t kMostNamed = 8;
  std::string message =
      std::to_string(demand.lost.size()) + " boxes that the target needs have no living holder:";
  for (std::size_t i = 0; i < std::min(kMostNamed, demand.lost.size()); ++i) {
    const Atom& atom = demand.lost[i];
    const LayoutTensor& tensor = source.tensors[static_cast<std::size_t>(atom.tensor.value)];
    message += "\n  " + tensor.name + " " + to_string(atom.box) + " (";
    const StateGroup& group = demand.groups[static_cast<std::size_t>(atom.group.value)];
    for (std::size_t s = 0; s < group.states.size(); ++s) {
      message +=
          (s > 0 ? ", " : "") + source.states[static_cast<std::size_t>(group.states[s].value)].name;
    }
    message += "), held by dead devices {";
    bool first = true;
    for (const DeviceShards& device : source.devices) {
      if (!topology.is_dead(device.device)) continue;
      const bool holds =
          std::any_of(device.storages.begin(), device.storages.end(), [&](const Storage& storage) {
            return has_lane(storage, group.states.front()) &&
                   std::any_of(storage.shards.begin(), storage.shards.end(),
                               [&](const Shard& shard) {
                                 return shard.tensor == atom.tensor &&
                                        !intersect(shard.box, atom.box).empty();
                               });
          });
      if (!holds) continue;
      message += (first ? "" : ", ") + std::to_string(device.device.value);
      first = false;
    }
    message += "}";
  }
  if (demand.lost.size() > kMostNamed) {
    message += "\n  and " + std::to_string(demand.lost.size() - kMostNamed) + " more";
  }
  throw Error(ErrorCode::Infeasible,
              message + "\n  give a checkpoint or another holder of these boxes");
}

Traffic traffic_of_group(const Demand& demand, const Layout& source, const Topology& topology,
                         StateGroupId group) {
  Traffic traffic;
  std::map<DeviceId, std::int64_t> received;
  std::map<NodeId, std::int64_t> into_node;
  for (const Atom& atom : demand.atoms) {
    if (atom.group != group || source.tensors[static_cast<std::size_t>(atom.tensor.value)].padding)
      continue;
    const std::int64_t elems = atom.box.num_elements();
    const std::vector<DeviceId>& holders = demand.devices(atom.holders);
    std::set<NodeId> holding;
    for (const DeviceId holder : holders) holding.insert(topology.node_of(holder));
    std::set<NodeId> entered;
    for (const DeviceId needer : demand.devices(atom.needers)) {
      traffic.needed = checked_add(traffic.needed, elems);
      if (std::binary_search(holders.begin(), holders.end(), needer)) {
        traffic.local += elems;
        continue;
      }
      received[needer] += elems;
      const NodeId node = topology.node_of(needer);
      if (!holding.contains(node) && entered.insert(node).second) into_node[node] += elems;
    }
  }
  for (const Atom& atom : demand.lost) {
    if (atom.group != group) continue;
    const auto copies = static_cast<std::int64_t>(demand.devices(atom.needers).size());
    traffic.lost = checked_add(traffic.lost, checked_mul(copies, atom.box.num_elements()));
  }
  traffic.needed = checked_add(traffic.needed, traffic.lost);
  for (const auto& [device, elems] : received) {
    traffic.received += elems;
    traffic.max_received_by_one_device = std::max(traffic.max_received_by_one_device, elems);
  }
  for (const auto& [node, elems] : into_node) {
    traffic.least_into_nodes += elems;
    traffic.max_least_into_one_node = std::max(traffic.max_least_into_one_node, elems);
  }
  return traffic;
}

}  // namespace plan
