// The machine: nodes, devices, ports and their prices. All prices are integers, so that planning
// takes no floating-point decision.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libplan/base/ids.h"

namespace plan {

// A duplex port. Rates are bytes per second, per direction.
struct LinkPrice {
  std::int64_t bytes_per_second = 0;
  std::int64_t latency_ns = 0;
  friend bool operator==(const LinkPrice&, const LinkPrice&) = default;
};

// A NIC of a node and the devices that reach it directly. One NIC per device is the usual rail
// layout; a device may have several NICs, and a NIC may be shared by several devices.
struct Nic {
  std::vector<DeviceId> devices;  // ascending, at least one
  LinkPrice price;
  friend bool operator==(const Nic&, const Nic&) = default;
};

struct Node {
  std::string name;
  std::vector<DeviceId> devices;  // ascending, at least one
  LinkPrice nvlink;               // each device's port to the other devices of the node
  std::vector<Nic> nics;
  friend bool operator==(const Node&, const Node&) = default;
};

// Invariants: device ids are >= 0 and unique over all nodes (they may be sparse); every NIC's
// devices belong to its node; dead devices exist in some node.
struct Topology {
  std::vector<Node> nodes;
  std::vector<DeviceId> dead;  // ascending: can neither send nor receive

  NodeId node_of(DeviceId device) const;  // Error(BadInput) for an unknown device
  bool has(DeviceId device) const;
  bool is_dead(DeviceId device) const;
  std::int64_t num_devices() const;
  friend bool operator==(const Topology&, const Topology&) = default;
};

// Limits, so that sums and products of prices fit in int64: no port is faster than 1 PB/s or later
// than 1000 s, no topology has more devices than 2^20.
inline constexpr std::int64_t kMaxBytesPerSecond = 1'000'000'000'000'000;
inline constexpr std::int64_t kMaxLatencyNs = 1'000'000'000'000;
inline constexpr std::int64_t kMaxDevices = std::int64_t{1} << 20;

inline constexpr std::int64_t kDefaultNvlinkLatencyNs = 2'000;
inline constexpr std::int64_t kDefaultNicLatencyNs = 5'000;
inline constexpr std::int64_t kDefaultNvlinkBytesPerSecond = 400'000'000'000;
inline constexpr std::int64_t kDefaultNicBytesPerSecond = 25'000'000'000;

// `text` is a file name, or the shorthand `nodes=16,gpus=8,nvlink=400GB/s,nic=25GB/s` (further
// keys: nvlink_latency=2us, nic_latency=5us, nics=N per node). `nodes=8+8+4` or `gpus=8+8+4` gives
// uneven nodes.
Topology read_topology(const std::string& text);

// The shorthand alone: `key=value` parts between commas. Errors (Usage) name the part that is
// wrong.
// * nodes=4 with gpus=8; or nodes=8+8+4, or gpus=8+8+4: the devices of each node
// * nvlink=400GB/s, nic=200Gb/s: a decimal number, then B, kB, MB, GB, TB (powers of 1000), KiB,
//   MiB, GiB, TiB, or the same with b for bits, per second; must be a whole number of bytes
// * nvlink_latency=2us, nic_latency=500ns: ns, us, ms, s
// * nics=4: NICs of each node (or 8+8+4), shared evenly by neighbouring devices, or several to each
//   device; without it one to each device
Topology parse_topology_shorthand(std::string_view text);

// The file form (schemas/topology.schema.json); `source_name` is used in errors.
Topology parse_topology_json(std::string_view json, const std::string& source_name);

// One node that holds devices 0..count-1, at the default prices.
Topology single_node(std::int32_t count);

// SHA-256 of the canonical JSON.
std::string digest(const Topology& topology);

// Checks the invariants above and the limits below; Error(BadInput) names the node or device.
void validate(const Topology& topology);

// Canonical JSON, the same bytes for equal topologies; parse_topology_json reads it back.
std::string to_json(const Topology& topology);

// Adds dead devices (sorted, unique); Error(BadInput) for one that the topology lacks.
Topology with_dead(Topology topology, std::vector<DeviceId> dead);

}  // namespace plan
