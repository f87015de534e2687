#include "libplan/cost/bounds.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "libplan/base/checked.h"
#include "libplan/cost/relay_bound.h"

namespace plan {
namespace {

using VertexSets = std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>>;

std::vector<FlowClass> flow_classes(const std::map<VertexSets, std::int64_t>& bytes) {
  std::vector<FlowClass> classes;
  for (const auto& [sets, sum] : bytes) classes.push_back({sets.first, sets.second, sum});
  return classes;
}

std::vector<DeviceId> lacking(const Demand& demand, const AtomClass& atoms) {
  const std::vector<DeviceId>& holders = demand.devices(atoms.holders);
  const std::vector<DeviceId>& needers = demand.devices(atoms.needers);
  std::vector<DeviceId> lacking;
  std::set_difference(needers.begin(), needers.end(), holders.begin(), holders.end(),
                      std::back_inserter(lacking));
  return lacking;
}

class BoundsBuilder {
 public:
  BoundsBuilder(const Demand& demand, const Topology& topology)
      : demand_(demand), topology_(topology) {
    for (std::size_t n = 0; n < topology.nodes.size(); ++n) {
      const std::vector<DeviceId>& devices = topology.nodes[n].devices;
      for (std::size_t i = 0; i < devices.size(); ++i) {
        place_[devices[i]] = {static_cast<std::int32_t>(n), static_cast<std::int32_t>(i)};
      }
    }
    inside_.resize(topology.nodes.size());
  }

  Bounds run() {
    for (const AtomClass& atoms : demand_.classes) {
      if (!atoms.padding) add(atoms);
    }
    for (const auto& [device, bytes] : received_) {
      result_.received_bytes = checked_add(result_.received_bytes, bytes);
      result_.max_received_bytes = std::max(result_.max_received_bytes, bytes);
    }
    const std::vector<FlowClass> between = flow_classes(between_);
    std::vector<std::int64_t> rates;
    for (const Node& node : topology_.nodes) rates.push_back(nic_rate(node));
    const std::int64_t entry = least_entry_ns(between, rates);
    result_.one_hop_nic_ns = std::max(entry, least_exit_ns(between, rates, false));
    result_.nic_ns = std::max(entry, least_exit_ns(between, rates, true));
    result_.makespan_ns = std::max(with_nic_latency(result_.nic_ns), inside_nodes());
    return result_;
  }

 private:
  static std::int64_t nic_rate(const Node& node) {
    std::int64_t rate = 0;
    for (const Nic& nic : node.nics) rate = checked_add(rate, nic.price.bytes_per_second);
    return rate;
  }

  // One message latency of the quickest NIC.
  std::int64_t with_nic_latency(std::int64_t time) const {
    if (time == 0) return 0;
    std::int64_t least = INT64_MAX;
    for (const Node& node : topology_.nodes) {
      for (const Nic& nic : node.nics) least = std::min(least, nic.price.latency_ns);
    }
    return checked_add(time, least);
  }

  void add(const AtomClass& atoms) {
    const std::vector<DeviceId> needers = lacking(demand_, atoms);
    std::map<std::int32_t, std::vector<std::int32_t>> holders_by_node;
    for (const DeviceId holder : demand_.devices(atoms.holders)) {
      const auto [node, index] = place_.at(holder);
      holders_by_node[node].push_back(index);
    }
    std::map<std::int32_t, std::vector<std::int32_t>> needers_by_node;
    for (const DeviceId needer : needers) {
      const auto [node, index] = place_.at(needer);
      needers_by_node[node].push_back(index);
      std::int64_t& sum = received_[needer];
      sum = checked_add(sum, atoms.bytes);
    }
    VertexSets nodes;
    for (const auto& [node, devices] : holders_by_node) nodes.first.push_back(node);
    for (const auto& [node, devices] : needers_by_node) {
      const auto holding = holders_by_node.find(node);
      if (holding == holders_by_node.end()) {
        nodes.second.push_back(node);
        result_.inter_node_bytes = checked_add(result_.inter_node_bytes, atoms.bytes);
      } else {
        inside_[static_cast<std::size_t>(node)][{holding->second, devices}] += atoms.bytes;
      }
    }
    if (!nodes.second.empty()) between_[nodes] += atoms.bytes;
  }

  // What a node holds and its other devices need crosses NVLink.
  std::int64_t inside_nodes() const {
    std::int64_t longest = 0;
    for (std::size_t n = 0; n < inside_.size(); ++n) {
      const Node& node = topology_.nodes[n];
      const std::vector<FlowClass> classes = flow_classes(inside_[n]);
      const std::vector<std::int64_t> rates(node.devices.size(), node.nvlink.bytes_per_second);
      const std::int64_t time =
          std::max(least_entry_ns(classes, rates), least_exit_ns(classes, rates, true));
      if (time > 0) longest = std::max(longest, checked_add(time, node.nvlink.latency_ns));
    }
    return longest;
  }

  const Demand& demand_;
  const Topology& topology_;
  Bounds result_;
  std::map<DeviceId, std::pair<std::int32_t, std::int32_t>> place_;  // node, index in it
  std::map<DeviceId, std::int64_t> received_;
  std::map<VertexSets, std::int64_t> between_;
  std::vector<std::map<VertexSets, std::int64_t>> inside_;  // by node
};

// Device storage of each device of a layout, in bytes.
std::map<DeviceId, std::int64_t> storage_bytes(const Layout& layout) {
  std::map<DeviceId, std::int64_t> bytes;
  for (const DeviceShards& device : layout.devices) {
    std::int64_t& sum = bytes[device.device];
    for (const Storage& storage : device.storages) {
      for (const Lane& lane : storage.lanes) {
        sum = checked_add(sum, checked_mul(storage.size_elems, size_bytes(lane.dtype)));
      }
    }
  }
  return bytes;
}

}  // namespace

Bounds bounds(const Demand& demand, const Layout& source, const Layout& target,
              const Topology& topology) {
  Bounds result = BoundsBuilder(demand, topology).run();
  for (const Layout* layout : {&source, &target}) {
    for (const auto& [device, bytes] : storage_bytes(*layout)) {
      if (!topology.is_dead(device)) result.peak_bytes = std::max(result.peak_bytes, bytes);
    }
  }
  return result;
}

}  // namespace plan
