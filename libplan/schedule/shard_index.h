// Finds the shards of one side of one device that hold a box.
#pragma once

#include <cstdint>
#include <vector>

#include "libplan/base/box.h"
#include "libplan/demand/demand.h"
#include "libplan/layout/layout.h"

namespace plan {

// A box and the shard that holds it.
struct Located {
  Box box;
  std::int32_t storage = 0;  // index into DeviceShards::storages
  std::int32_t shard = 0;    // index into Storage::shards
};

class ShardIndex {
 public:
  ShardIndex(const DeviceShards& device, const std::vector<StateGroup>& groups);

  // Disjoint boxes, ascending, that together are the part of `box` that the device holds. Of
  // several shards with one box the first is taken.
  std::vector<Located> locate(StateGroupId group, TensorId tensor, const Box& box) const;

  // Shards that repeat the box of an earlier shard, with that earlier shard.
  struct Duplicate {
    StateGroupId group;
    Located first;
    Located again;
  };
  const std::vector<Duplicate>& duplicates() const { return duplicates_; }

 private:
  struct Entry {
    StateGroupId group;
    TensorId tensor;
    Box box;
    std::int32_t storage = 0;
    std::int32_t shard = 0;
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  std::vector<Entry> entries_;  // ascending, boxes unique per group and tensor
  std::vector<Duplicate> duplicates_;
};

}  // namespace plan
