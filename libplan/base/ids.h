// Strong integer ids: a TensorId cannot be passed where a DeviceId is meant.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace plan {

template <class Tag>
struct Id {
  std::int32_t value = -1;  // -1: no id

  constexpr Id() = default;
  constexpr explicit Id(std::int32_t v) : value(v) {}
  constexpr bool valid() const { return value >= 0; }
  friend constexpr auto operator<=>(const Id&, const Id&) = default;
};

using DeviceId = Id<struct DeviceTag>;    // a worker: one process on one device; may be sparse
using NodeId = Id<struct NodeTag>;        // index into Topology::nodes
using TensorId = Id<struct TensorTag>;    // index into Model::tensors and Schedule::tensors
using StateId = Id<struct StateTag>;      // index into the list of state kinds
using RankId = Id<struct RankTag>;        // index into Schedule::ranks: 0..n-1, ascending by worker
using StorageId = Id<struct StorageTag>;  // index into Program::storages of one rank

}  // namespace plan

template <class Tag>
struct std::hash<plan::Id<Tag>> {
  std::size_t operator()(plan::Id<Tag> id) const noexcept {
    return std::hash<std::int32_t>{}(id.value);
  }
};
