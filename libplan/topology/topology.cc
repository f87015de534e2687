#include "libplan/topology/topology.h"

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include "libplan/base/digest.h"
#include "libplan/base/error.h"
#include "libplan/base/files.h"

namespace plan {
namespace {

bool holds(const Node& node, DeviceId device) {
  return std::binary_search(node.devices.begin(), node.devices.end(), device);
}

// Index of the node that holds `device`, or -1. Nodes mostly come in ascending order of their
// devices, so that a binary search over first devices finds the node; if it does not, all are
// tried.
std::int32_t find_node(const std::vector<Node>& nodes, DeviceId device) {
  const auto after = std::upper_bound(
      nodes.begin(), nodes.end(), device,
      [](DeviceId wanted, const Node& node) { return wanted < node.devices.front(); });
  if (after != nodes.begin() && holds(*std::prev(after), device)) {
    return static_cast<std::int32_t>(std::prev(after) - nodes.begin());
  }
  const auto it = std::find_if(nodes.begin(), nodes.end(),
                               [&](const Node& node) { return holds(node, device); });
  return it == nodes.end() ? -1 : static_cast<std::int32_t>(it - nodes.begin());
}

bool strictly_ascending(const std::vector<DeviceId>& devices) {
  return std::adjacent_find(devices.begin(), devices.end(), std::greater_equal<>()) ==
         devices.end();
}

void check_price(const LinkPrice& price, const std::string& place) {
  if (price.bytes_per_second < 1 || price.bytes_per_second > kMaxBytesPerSecond) {
    throw Error(
        ErrorCode::BadInput,
        "expected 1 to 10^15 bytes per second, found " + std::to_string(price.bytes_per_second),
        place);
  }
  if (price.latency_ns < 0 || price.latency_ns > kMaxLatencyNs) {
    throw Error(ErrorCode::BadInput,
                "expected a latency of 0 to 10^12 ns, found " + std::to_string(price.latency_ns),
                place);
  }
}

void check_devices(const std::vector<DeviceId>& devices, const std::string& place) {
  if (devices.empty()) throw Error(ErrorCode::BadInput, "expected at least one device", place);
  if (!devices.front().valid()) {
    throw Error(ErrorCode::BadInput,
                "device ids are 0 or more, found " + std::to_string(devices.front().value), place);
  }
  if (!strictly_ascending(devices)) {
    throw Error(ErrorCode::BadInput, "device ids must ascend, each given once", place);
  }
}

void check_node(const Node& node) {
  const std::string place = "node \"" + node.name + "\"";
  check_devices(node.devices, place);
  check_price(node.nvlink, place + ", nvlink");
  for (std::size_t i = 0; i < node.nics.size(); ++i) {
    const std::string nic_place = place + ", NIC " + std::to_string(i);
    check_devices(node.nics[i].devices, nic_place);
    check_price(node.nics[i].price, nic_place);
    for (const DeviceId device : node.nics[i].devices) {
      if (holds(node, device)) continue;
      throw Error(
          ErrorCode::BadInput,
          "a NIC's devices belong to its node, found device " + std::to_string(device.value),
          nic_place);
    }
  }
}

}  // namespace

NodeId Topology::node_of(DeviceId device) const {
  const std::int32_t node = find_node(nodes, device);
  if (node < 0) {
    throw Error(ErrorCode::BadInput, "the topology has no device " + std::to_string(device.value));
  }
  return NodeId(node);
}

bool Topology::has(DeviceId device) const { return find_node(nodes, device) >= 0; }

bool Topology::is_dead(DeviceId device) const {
  return std::binary_search(dead.begin(), dead.end(), device);
}

std::int64_t Topology::num_devices() const {
  std::int64_t count = 0;
  for (const Node& node : nodes) count += static_cast<std::int64_t>(node.devices.size());
  return count;
}

void validate(const Topology& topology) {
  if (topology.nodes.empty()) throw Error(ErrorCode::BadInput, "the topology has no node");
  if (topology.num_devices() > kMaxDevices) {
    throw Error(ErrorCode::BadInput,
                "expected at most 2^20 devices, found " + std::to_string(topology.num_devices()));
  }
  std::unordered_set<std::string> names;
  std::unordered_set<DeviceId> devices;
  for (const Node& node : topology.nodes) {
    if (!names.insert(node.name).second) {
      throw Error(ErrorCode::BadInput, "two nodes have the name \"" + node.name + "\"");
    }
    check_node(node);
    for (const DeviceId device : node.devices) {
      if (devices.insert(device).second) continue;
      throw Error(ErrorCode::BadInput,
                  "device " + std::to_string(device.value) + " is also on another node",
                  "node \"" + node.name + "\"");
    }
  }
  if (!strictly_ascending(topology.dead)) {
    throw Error(ErrorCode::BadInput, "dead devices must ascend, each given once");
  }
  for (const DeviceId device : topology.dead) {
    if (devices.contains(device)) continue;
    throw Error(ErrorCode::BadInput,
                "dead device " + std::to_string(device.value) + " is on no node");
  }
}

Topology read_topology(const std::string& text) {
  // A file wins over the shorthand, so that a name with "=" in it stays usable.
  std::error_code ignored;
  if (!std::filesystem::exists(text, ignored) && text.find('=') != std::string::npos) {
    return parse_topology_shorthand(text);
  }
  return parse_topology_json(read_file(text), text);
}

Topology single_node(std::int32_t count) {
  Topology topology;
  Node& node = topology.nodes.emplace_back();
  node.name = "node0";
  node.nvlink = {kDefaultNvlinkBytesPerSecond, kDefaultNvlinkLatencyNs};
  for (std::int32_t i = 0; i < count; ++i) {
    node.devices.push_back(DeviceId(i));
    node.nics.push_back({{DeviceId(i)}, {kDefaultNicBytesPerSecond, kDefaultNicLatencyNs}});
  }
  validate(topology);
  return topology;
}

Topology with_dead(Topology topology, std::vector<DeviceId> dead) {
  for (const DeviceId device : dead) {
    if (topology.has(device)) continue;
    throw Error(ErrorCode::BadInput,
                "dead device " + std::to_string(device.value) + " is not in the topology");
  }
  topology.dead.insert(topology.dead.end(), dead.begin(), dead.end());
  std::sort(topology.dead.begin(), topology.dead.end());
  topology.dead.erase(std::unique(topology.dead.begin(), topology.dead.end()), topology.dead.end());
  return topology;
}

std::string digest(const Topology& topology) { return sha256_hex(to_json(topology)); }

}  // namespace plan
