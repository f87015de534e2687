// A Layout (shard map): which device holds which Box of which tensor, where in which storage.
//
// Every rule (Megatron, FSDP2, DTensor) and every layout file ends here, and everything downstream
// sees nothing else. Replication is several devices holding the same Box.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libplan/base/box.h"
#include "libplan/base/dtype.h"
#include "libplan/base/ids.h"
#include "libplan/model/model.h"

namespace plan {

// A Box of a tensor and where it lies in its storage. Element i of the box (i relative to the box's
// first corner) lies at offset_elems + sum of i[k] * strides_elems[k].
struct Shard {
  TensorId tensor;
  Box box;  // never empty
  std::int64_t offset_elems = 0;
  Dims strides_elems;  // one per dimension of the box
  friend bool operator==(const Shard&, const Shard&) = default;
};

// One state kind that has its own allocation with a storage's geometry.
struct Lane {
  StateId state;
  Dtype dtype = Dtype::Float32;
  friend auto operator<=>(const Lane&, const Lane&) = default;
};

// One allocation on one device for each lane: main_param, exp_avg and exp_avg_sq of one owned range
// share shards. Invariants: shards lie inside [0, size_elems) and do not overlap; elements that no
// shard covers (alignment, bucket padding) carry no state.
struct Storage {
  std::string key;          // binding key, unique on its device
  std::vector<Lane> lanes;  // ascending by state
  std::int64_t size_elems = 0;
  MemoryKind memory = MemoryKind::Device;
  std::vector<Shard> shards;
  friend bool operator==(const Storage&, const Storage&) = default;
};

struct DeviceShards {
  DeviceId device;
  std::vector<Storage> storages;
  friend bool operator==(const DeviceShards&, const DeviceShards&) = default;
};

// A tensor as the layout knows it. Vocabulary padding is a tensor of its own (name + ".padding",
// shape [pad rows, ...]) whose elements move uncounted and are filled where no one holds them.
struct LayoutTensor {
  std::string name;
  Dims shape;           // canonical
  int block_axis = -1;  // as Tensor::block_axis, for printing in logical coordinates
  bool padding = false;
  friend bool operator==(const LayoutTensor&, const LayoutTensor&) = default;
};

struct Layout {
  std::vector<LayoutTensor> tensors;
  std::vector<StateKind> states;
  std::vector<DeviceShards> devices;  // ascending by device; a device without storages is kept
  std::vector<std::string>
      notices;  // known bugs of a version that the layout reproduces, and the like
};

// Renumbers the tensors and states of both layouts by name so that equal ids mean equal things: the
// source's in its order, then what only the target has. Error(BadInput) if one name has two shapes
// or a state two kinds; padding tensors may differ in their rows and get the larger number.
void unify(Layout& source, Layout& target);

// Checks the invariants above, for layouts that come from outside: ids valid, boxes inside tensors,
// shards inside storages and not overlapping, devices ascending, keys unique, no device holding one
// element twice except in equal boxes. Error(BadInput) names device, storage and tensor.
void validate(const Layout& layout);

// SHA-256 over devices, storages and the tensors and states they use, by name; independent of how
// tensors are numbered and of notices.
std::string digest(const Layout& layout);

}  // namespace plan
