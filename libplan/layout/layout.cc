#include "libplan/layout/layout.h"

#include <algorithm>
#include <map>
#include <set>

#include "libplan/base/checked.h"
#include "libplan/base/digest.h"
#include "libplan/base/error.h"

namespace plan {
namespace {

// A common table of tensors or states, and each layout's way into it.
class TensorTable {
 public:
  std::vector<TensorId> add(const Layout& layout) {
    std::vector<TensorId> ids;
    for (const LayoutTensor& tensor : layout.tensors) {
      const auto [at, inserted] =
          by_name_.try_emplace(tensor.name, TensorId(static_cast<std::int32_t>(tensors_.size())));
      if (inserted) {
        tensors_.push_back(tensor);
      } else {
        merge(tensors_[static_cast<std::size_t>(at->second.value)], tensor);
      }
      ids.push_back(at->second);
    }
    return ids;
  }
  const std::vector<LayoutTensor>& tensors() const { return tensors_; }

 private:
  static void merge(LayoutTensor& known, const LayoutTensor& other) {
    if (known.padding && other.padding && known.shape.count == other.shape.count) {
      for (int axis = 0; axis < known.shape.count; ++axis) {
        known.shape[axis] = std::max(known.shape[axis], other.shape[axis]);
      }
      return;
    }
    if (known != other) {
      throw Error(ErrorCode::BadInput,
                  "expected one shape in the source and the target, found " +
                      to_string(known.shape) + " and " + to_string(other.shape),
                  "tensor " + known.name);
    }
  }

  std::map<std::string, TensorId> by_name_;
  std::vector<LayoutTensor> tensors_;
};

std::vector<StateId> add_states(const Layout& layout, std::vector<StateKind>& table) {
  std::vector<StateId> ids;
  for (const StateKind& state : layout.states) {
    const auto known = std::find_if(table.begin(), table.end(),
                                    [&](const StateKind& s) { return s.name == state.name; });
    ids.emplace_back(static_cast<std::int32_t>(known - table.begin()));
    if (known == table.end()) table.push_back(state);
  }
  return ids;
}

void renumber(Layout& layout, const std::vector<TensorId>& tensors,
              const std::vector<StateId>& states) {
  for (DeviceShards& device : layout.devices) {
    for (Storage& storage : device.storages) {
      for (Lane& lane : storage.lanes)
        lane.state = states[static_cast<std::size_t>(lane.state.value)];
      std::sort(storage.lanes.begin(), storage.lanes.end());
      for (Shard& shard : storage.shards) {
        shard.tensor = tensors[static_cast<std::size_t>(shard.tensor.value)];
      }
    }
  }
}

void put(std::string& bytes, std::int64_t value) {
  for (int i = 0; i < 8; ++i)
    bytes += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
}

void put(std::string& bytes, const std::string& text) {
  put(bytes, static_cast<std::int64_t>(text.size()));
  bytes += text;
}

// Used tensors by name, and each tensor's number among them.
std::map<std::string, std::int64_t> used_tensors(const Layout& layout) {
  std::vector<bool> used(layout.tensors.size(), false);
  for (const DeviceShards& device : layout.devices) {
    for (const Storage& storage : device.storages) {
      for (const Shard& shard : storage.shards)
        used[static_cast<std::size_t>(shard.tensor.value)] = true;
    }
  }
  std::map<std::string, std::int64_t> numbers;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i]) numbers[layout.tensors[i].name] = 0;
  }
  std::int64_t next = 0;
  for (auto& [name, number] : numbers) number = next++;
  return numbers;
}

}  // namespace

void unify(Layout& source, Layout& target) {
  TensorTable tensors;
  const std::vector<TensorId> source_tensors = tensors.add(source);
  const std::vector<TensorId> target_tensors = tensors.add(target);
  std::vector<StateKind> states;
  const std::vector<StateId> source_states = add_states(source, states);
  const std::vector<StateId> target_states = add_states(target, states);
  renumber(source, source_tensors, source_states);
  renumber(target, target_tensors, target_states);
  source.tensors = tensors.tensors();
  target.tensors = tensors.tensors();
  source.states = states;
  target.states = states;
}

std::string digest(const Layout& layout) {
  const std::map<std::string, std::int64_t> numbers = used_tensors(layout);
  std::string all;
  std::vector<std::int64_t> number_of(layout.tensors.size(), -1);
  std::map<std::string, const LayoutTensor*> by_name;
  for (std::size_t i = 0; i < layout.tensors.size(); ++i) {
    const auto at = numbers.find(layout.tensors[i].name);
    if (at == numbers.end()) continue;
    number_of[i] = at->second;
    by_name[at->first] = &layout.tensors[i];
  }
  for (const auto& [name, tensor] : by_name) {
    put(all, name);
    put(all, tensor->padding ? 1 : 0);
    put(all, tensor->block_axis);
    // Padding rows are as many as the larger side needs after unify(), so they are not a property
    // of this layout; its shards tell which rows it has.
    if (!tensor->padding) {
      for (const std::int64_t extent : tensor->shape) put(all, extent);
    }
  }
  for (const DeviceShards& device : layout.devices) {
    std::string bytes;
    put(bytes, device.device.value);
    for (const Storage& storage : device.storages) {
      put(bytes, storage.key);
      std::map<std::string, Dtype> lanes;
      for (const Lane& lane : storage.lanes) {
        lanes[layout.states[static_cast<std::size_t>(lane.state.value)].name] = lane.dtype;
      }
      for (const auto& [state, dtype] : lanes) {
        put(bytes, state);
        put(bytes, static_cast<std::int64_t>(dtype));
      }
      put(bytes, storage.size_elems);
      put(bytes, static_cast<std::int64_t>(storage.memory));
      for (const Shard& shard : storage.shards) {
        put(bytes, number_of[static_cast<std::size_t>(shard.tensor.value)]);
        put(bytes, shard.offset_elems);
        for (int axis = 0; axis < shard.box.count; ++axis) {
          put(bytes, shard.box[axis].begin);
          put(bytes, shard.box[axis].end);
          put(bytes, shard.strides_elems[axis]);
        }
      }
    }
    all += sha256_hex(bytes);
  }
  return sha256_hex(all);
}

}  // namespace plan
