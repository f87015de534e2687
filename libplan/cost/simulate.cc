#include <algorithm>
#include <map>
#include <vector>

#include "libplan/base/checked.h"
#include "libplan/cost/estimate.h"
#include "libplan/cost/relay_bound.h"

namespace plan {
namespace {

// A port is (node, NIC) or (node, device's NVLink port).
struct Port {
  NodeId node;
  bool is_nic = false;
  std::int32_t index = 0;
  friend auto operator<=>(const Port&, const Port&) = default;
};

class Simulation {
 public:
  Simulation(const ir::Schedule& schedule, const Topology& topology)
      : schedule_(schedule), topology_(topology), ready_(schedule.ranks.size(), 0) {}

  std::int64_t run() {
    std::map<std::int32_t, std::vector<Message>> by_window;
    for (const ir::Program& program : schedule_.programs) {
      for (const ir::Window& window : program.windows) {
        for (const ir::Send& send : ir::view(program.sends, window.sends)) {
          by_window[window.number].push_back(
              {program.rank, send.to_rank, ir::num_bytes(program, send)});
        }
      }
    }
    for (const auto& [window, messages] : by_window) run_window(messages);
    std::int64_t last = 0;
    for (const std::int64_t time : ready_) last = std::max(last, time);
    return last;
  }

 private:
  struct Message {
    RankId sender;
    RankId receiver;
    std::int64_t bytes = 0;
  };

  const ir::RankEntry& entry(RankId rank) const {
    return schedule_.ranks[static_cast<std::size_t>(rank.value)];
  }

  // The ports at the rank's side of a message, each with its share: NVLink inside a node; between
  // nodes the device's own NICs, or all of the node's for a device without one.
  std::vector<Port> ports(RankId rank, bool inside_node) const {
    const ir::RankEntry& at = entry(rank);
    const Node& node = topology_.nodes[static_cast<std::size_t>(at.node.value)];
    if (inside_node) return {{at.node, false, at.worker.value}};
    std::vector<Port> own;
    std::vector<Port> all;
    for (std::size_t n = 0; n < node.nics.size(); ++n) {
      const std::vector<DeviceId>& devices = node.nics[n].devices;
      const Port port{at.node, true, static_cast<std::int32_t>(n)};
      all.push_back(port);
      if (std::binary_search(devices.begin(), devices.end(), at.worker)) own.push_back(port);
    }
    return own.empty() ? all : own;
  }

  const LinkPrice& price(const Port& port) const {
    const Node& node = topology_.nodes[static_cast<std::size_t>(port.node.value)];
    return port.is_nic ? node.nics[static_cast<std::size_t>(port.index)].price : node.nvlink;
  }

  void run_window(const std::vector<Message>& messages) {
    std::map<Port, std::int64_t> out;
    std::map<Port, std::int64_t> in;
    for (const Message& message : messages) {
      const bool inside = entry(message.sender).node == entry(message.receiver).node;
      add_load(ports(message.sender, inside), message.bytes, out);
      add_load(ports(message.receiver, inside), message.bytes, in);
    }
    std::vector<std::int64_t> done = ready_;
    for (const Message& message : messages) {
      const bool inside = entry(message.sender).node == entry(message.receiver).node;
      const auto s = static_cast<std::size_t>(message.sender.value);
      const auto r = static_cast<std::size_t>(message.receiver.value);
      const std::vector<Port> sending = ports(message.sender, inside);
      const std::vector<Port> receiving = ports(message.receiver, inside);
      const std::int64_t carried = std::max(longest(sending, out), longest(receiving, in));
      const std::int64_t sent = checked_add(std::max(ready_[s], ready_[r]), carried);
      done[s] = std::max(done[s], sent);
      done[r] = std::max(done[r], checked_add(sent, latency(sending)));
    }
    ready_ = std::move(done);
  }

  static void add_load(const std::vector<Port>& ports, std::int64_t bytes,
                       std::map<Port, std::int64_t>& loads) {
    if (ports.empty()) return;
    const std::int64_t share = ceil_div(bytes, static_cast<std::int64_t>(ports.size()));
    for (const Port& port : ports) {
      std::int64_t& load = loads[port];
      load = checked_add(load, share);
    }
  }

  std::int64_t longest(const std::vector<Port>& ports,
                       const std::map<Port, std::int64_t>& loads) const {
    std::int64_t time = 0;
    for (const Port& port : ports) {
      time = std::max(time, transfer_ns(loads.at(port), price(port).bytes_per_second));
    }
    return time;
  }

  std::int64_t latency(const std::vector<Port>& ports) const {
    std::int64_t latency = 0;
    for (const Port& port : ports) latency = std::max(latency, price(port).latency_ns);
    return latency;
  }

  const ir::Schedule& schedule_;
  const Topology& topology_;
  std::vector<std::int64_t> ready_;  // per rank: when its windows so far are done
};

}  // namespace

std::int64_t simulate(const ir::Schedule& schedule, const Topology& topology) {
  return Simulation(schedule, topology).run();
}

}  // namespace plan
