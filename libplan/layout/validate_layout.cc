#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "libplan/base/checked.h"
#include "libplan/base/error.h"
#include "libplan/layout/layout.h"

namespace plan {
namespace {

std::string place_of(const DeviceShards& device, const Storage& storage) {
  return "device " + std::to_string(device.device.value) + ", storage \"" + storage.key + "\"";
}

[[noreturn]] void refuse(const DeviceShards& device, const Storage& storage,
                         const std::string& message) {
  throw Error(ErrorCode::BadInput, message, place_of(device, storage));
}

void check_shard(const Layout& layout, const DeviceShards& device, const Storage& storage,
                 const Shard& shard) {
  if (!shard.tensor.valid() ||
      static_cast<std::size_t>(shard.tensor.value) >= layout.tensors.size()) {
    refuse(device, storage,
           "expected a tensor of the layout, found number " + std::to_string(shard.tensor.value));
  }
  const LayoutTensor& tensor = layout.tensors[static_cast<std::size_t>(shard.tensor.value)];
  if (shard.box.count != tensor.shape.count || shard.strides_elems.count != tensor.shape.count) {
    refuse(device, storage,
           tensor.name + ": expected " + std::to_string(tensor.shape.count) +
               " dimensions, found " + std::to_string(shard.box.count));
  }
  if (shard.box.empty() || !Box::whole(tensor.shape).contains(shard.box)) {
    refuse(device, storage,
           tensor.name + ": expected a box inside " + to_string(tensor.shape) +
               " that is not empty, found " + to_string(shard.box));
  }
  std::int64_t last = shard.offset_elems;
  for (int axis = 0; axis < shard.box.count; ++axis) {
    if (shard.strides_elems[axis] < 0)
      refuse(device, storage, tensor.name + ": a stride is negative");
    last = checked_add(last, checked_mul(shard.box[axis].length() - 1, shard.strides_elems[axis]));
  }
  if (shard.offset_elems < 0 || last >= storage.size_elems) {
    refuse(device, storage,
           tensor.name + ": expected elements below " + std::to_string(storage.size_elems) +
               ", found a shard over [" + std::to_string(shard.offset_elems) + ", " +
               std::to_string(last + 1) + ")");
  }
}

// Memory footprint of a shard as (count, stride) from the largest stride down; two elements share a
// place unless each stride reaches over everything inside it.
bool overlaps_itself(const Shard& shard) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // stride, count
  for (int axis = 0; axis < shard.box.count; ++axis) {
    if (shard.box[axis].length() > 1)
      dims.emplace_back(shard.strides_elems[axis], shard.box[axis].length());
  }
  std::sort(dims.begin(), dims.end());
  std::int64_t reach = 1;  // elements that the inner dimensions span
  for (const auto& [stride, count] : dims) {
    if (stride < reach) return true;
    reach = checked_add(checked_mul(stride, count - 1), reach);
  }
  return false;
}

// Shards that interleave in memory (rows of two tensors side by side) are compared run by run.
void append_runs(const Shard& shard, std::size_t index,
                 std::vector<std::tuple<std::int64_t, std::int64_t, std::size_t>>& runs) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // stride, count
  for (int axis = 0; axis < shard.box.count; ++axis) {
    if (shard.box[axis].length() > 1)
      dims.emplace_back(shard.strides_elems[axis], shard.box[axis].length());
  }
  std::sort(dims.begin(), dims.end());
  std::int64_t run = 1;
  std::size_t inner = 0;
  while (inner < dims.size() && dims[inner].first == run)
    run = checked_mul(run, dims[inner++].second);
  std::vector<std::int64_t> offsets{shard.offset_elems};
  for (std::size_t d = inner; d < dims.size(); ++d) {
    std::vector<std::int64_t> next;
    for (const std::int64_t offset : offsets) {
      for (std::int64_t i = 0; i < dims[d].second; ++i) next.push_back(offset + i * dims[d].first);
    }
    offsets = std::move(next);
  }
  for (const std::int64_t offset : offsets) runs.emplace_back(offset, offset + run, index);
}

void check_disjoint_memory(const Layout& layout, const DeviceShards& device,
                           const Storage& storage) {
  std::vector<std::tuple<std::int64_t, std::int64_t, std::size_t>> runs;
  for (std::size_t i = 0; i < storage.shards.size(); ++i) {
    const Shard& shard = storage.shards[i];
    const std::string& name = layout.tensors[static_cast<std::size_t>(shard.tensor.value)].name;
    if (overlaps_itself(shard))
      refuse(device, storage, name + ": the strides of a shard overlap each other");
    append_runs(shard, i, runs);
  }
  std::sort(runs.begin(), runs.end());
  for (std::size_t i = 1; i < runs.size(); ++i) {
    if (std::get<0>(runs[i]) >= std::get<1>(runs[i - 1])) continue;
    const Shard& a = storage.shards[std::get<2>(runs[i - 1])];
    const Shard& b = storage.shards[std::get<2>(runs[i])];
    refuse(device, storage,
           "two shards overlap in memory at element " + std::to_string(std::get<0>(runs[i])) +
               ": " + layout.tensors[static_cast<std::size_t>(a.tensor.value)].name + " " +
               to_string(a.box) + " and " +
               layout.tensors[static_cast<std::size_t>(b.tensor.value)].name + " " +
               to_string(b.box));
  }
}

// One element twice on a device is fine in equal boxes (a tied copy) and ambiguous otherwise.
void check_element_once(const Layout& layout, const DeviceShards& device) {
  std::map<std::pair<TensorId, StateId>, std::set<Box>> boxes;
  for (const Storage& storage : device.storages) {
    for (const Lane& lane : storage.lanes) {
      for (const Shard& shard : storage.shards) boxes[{shard.tensor, lane.state}].insert(shard.box);
    }
  }
  for (const auto& [key, set] : boxes) {
    for (auto a = set.begin(); a != set.end(); ++a) {
      for (auto b = std::next(a); b != set.end(); ++b) {
        if (a->count > 0 && (*b)[0].begin >= (*a)[0].end) break;  // sorted by the first axis
        if (intersect(*a, *b).empty()) continue;
        throw Error(ErrorCode::BadInput,
                    "expected boxes that are equal or apart, found " + to_string(*a) + " and " +
                        to_string(*b),
                    "device " + std::to_string(device.device.value) + ", tensor " +
                        layout.tensors[static_cast<std::size_t>(key.first.value)].name);
      }
    }
  }
}

}  // namespace

void validate(const Layout& layout) {
  std::set<std::string> names;
  for (const LayoutTensor& tensor : layout.tensors) {
    num_elements(tensor.shape);
    if (!names.insert(tensor.name).second) {
      throw Error(ErrorCode::BadInput, "the name is given twice", "tensor " + tensor.name);
    }
  }
  DeviceId previous;
  for (const DeviceShards& device : layout.devices) {
    if (device.device.value < 0 || device.device <= previous) {
      throw Error(ErrorCode::BadInput, "expected devices in ascending order, found " +
                                           std::to_string(device.device.value) + " after " +
                                           std::to_string(previous.value));
    }
    previous = device.device;
    std::set<std::pair<std::string, StateId>> keys;
    for (const Storage& storage : device.storages) {
      if (storage.size_elems < 0) refuse(device, storage, "the size is negative");
      if (storage.lanes.empty()) refuse(device, storage, "expected at least one state, found none");
      for (const Lane& lane : storage.lanes) {
        if (!lane.state.valid() ||
            static_cast<std::size_t>(lane.state.value) >= layout.states.size()) {
          refuse(
              device, storage,
              "expected a state of the layout, found number " + std::to_string(lane.state.value));
        }
        if (!keys.emplace(storage.key, lane.state).second)
          refuse(device, storage, "the key is given twice for one state");
      }
      for (const Shard& shard : storage.shards) check_shard(layout, device, storage, shard);
      check_disjoint_memory(layout, device, storage);
    }
    check_element_once(layout, device);
  }
}

}  // namespace plan
