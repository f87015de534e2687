#include "libplan/cost/relay_bound.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>

#include "libplan/base/checked.h"
#include "libplan/base/error.h"

namespace plan {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;

struct ArcProperties {
  std::int64_t capacity = 0;
  std::int64_t residual = 0;
  Traits::edge_descriptor reverse;
};

using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property,
                                    ArcProperties>;

// source 0, sink 1, then one vertex per port, then two per class: all its copies, and the copies
// that relays may send.
class ExitNetwork {
 public:
  ExitNetwork(const std::vector<FlowClass>& classes, const std::vector<std::int64_t>& bandwidth,
              bool relays)
      : classes_(classes),
        bandwidth_(bandwidth),
        graph_(2 + bandwidth.size() + 2 * classes.size()) {
    for (std::size_t v = 0; v < bandwidth.size(); ++v)
      port_arcs_.push_back(add_arc(port(v), kSink, 0));
    for (std::size_t c = 0; c < classes.size(); ++c) {
      const FlowClass& flow = classes[c];
      const std::int64_t copies = static_cast<std::int64_t>(flow.needers.size());
      const std::int64_t bytes = checked_mul(flow.bytes, copies);
      demand_ = checked_add(demand_, bytes);
      add_arc(kSource, all(c), bytes);
      for (const std::int32_t v : flow.holders)
        add_arc(all(c), port(static_cast<std::size_t>(v)), bytes);
      if (!relays || copies < 2) continue;
      add_arc(all(c), relayed(c), flow.bytes * (copies - 1));
      for (const std::int32_t v : flow.needers)
        add_arc(relayed(c), port(static_cast<std::size_t>(v)), bytes);
    }
  }

  std::int64_t least_ns() {
    std::int64_t time = 0;
    for (;;) {
      const std::int64_t next = time_of_violated_cut(time);
      if (next < 0) return time;
      PLAN_CHECK(next > time);
      time = next;
    }
  }

 private:
  static constexpr std::size_t kSource = 0;
  static constexpr std::size_t kSink = 1;
  std::size_t port(std::size_t v) const { return 2 + v; }
  std::size_t all(std::size_t c) const { return 2 + bandwidth_.size() + 2 * c; }
  std::size_t relayed(std::size_t c) const { return all(c) + 1; }

  Traits::edge_descriptor add_arc(std::size_t from, std::size_t to, std::int64_t capacity) {
    const auto forward = boost::add_edge(from, to, graph_).first;
    const auto backward = boost::add_edge(to, from, graph_).first;
    graph_[forward].capacity = capacity;
    graph_[forward].reverse = backward;
    graph_[backward].reverse = forward;
    return forward;
  }

  // Vertices on the source side of a minimum cut: what the residual graph reaches.
  std::vector<bool> source_side() const {
    std::vector<bool> reached(boost::num_vertices(graph_), false);
    std::vector<std::size_t> stack{kSource};
    reached[kSource] = true;
    while (!stack.empty()) {
      const std::size_t v = stack.back();
      stack.pop_back();
      for (const auto& arc : boost::make_iterator_range(boost::out_edges(v, graph_))) {
        const std::size_t to = boost::target(arc, graph_);
        if (graph_[arc].residual <= 0 || reached[to]) continue;
        reached[to] = true;
        stack.push_back(to);
      }
    }
    return reached;
  }

  // The time at which the minimum cut of `time` would carry the demand; -1 if it already does.
  std::int64_t time_of_violated_cut(std::int64_t time) {
    for (std::size_t v = 0; v < bandwidth_.size(); ++v) {
      const Int128 bytes = static_cast<Int128>(time) * bandwidth_[v] / kNsPerSecond;
      graph_[port_arcs_[v]].capacity =
          static_cast<std::int64_t>(std::min<Int128>(bytes, demand_));
    }
    const std::int64_t flow = boost::push_relabel_max_flow(
        graph_, kSource, kSink,
        boost::capacity_map(boost::get(&ArcProperties::capacity, graph_))
            .residual_capacity_map(boost::get(&ArcProperties::residual, graph_))
            .reverse_edge_map(boost::get(&ArcProperties::reverse, graph_)));
    if (flow == demand_) return -1;
    const std::vector<bool> side = source_side();
    std::int64_t bytes = 0;
    std::int64_t rate = 0;
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      if (!side[all(c)]) continue;
      const std::int64_t copies = static_cast<std::int64_t>(classes_[c].needers.size());
      // Copies that relays take over leave the cut when the relays are on the other side.
      bytes = checked_add(bytes, side[relayed(c)] || copies < 2 || !has_relays(c)
                                     ? classes_[c].bytes * copies
                                     : classes_[c].bytes);
    }
    for (std::size_t v = 0; v < bandwidth_.size(); ++v) {
      if (side[port(v)]) rate = checked_add(rate, bandwidth_[v]);
    }
    // Capacities are rounded down to bytes, so a step may repeat; one more nanosecond then decides.
    return std::max(transfer_ns(bytes, rate), time + 1);
  }

  bool has_relays(std::size_t c) const { return boost::out_degree(relayed(c), graph_) > 0; }

  const std::vector<FlowClass>& classes_;
  const std::vector<std::int64_t>& bandwidth_;
  Graph graph_;
  std::vector<Traits::edge_descriptor> port_arcs_;
  std::int64_t demand_ = 0;
};

}  // namespace

std::int64_t transfer_ns(std::int64_t bytes, std::int64_t bytes_per_second) {
  if (bytes == 0) return 0;
  if (bytes_per_second <= 0) {
    throw Error(ErrorCode::Infeasible,
                std::to_string(bytes) + " bytes must cross a port of bandwidth 0");
  }
  const Int128 scaled = static_cast<Int128>(bytes) * kNsPerSecond;
  const Int128 time = (scaled + bytes_per_second - 1) / bytes_per_second;
  if (time > INT64_MAX)
    throw Error(ErrorCode::BadInput, "a transfer would take more than 292 years");
  return static_cast<std::int64_t>(time);
}

std::int64_t least_exit_ns(const std::vector<FlowClass>& classes,
                           const std::vector<std::int64_t>& bytes_per_second, bool relays) {
  if (classes.empty()) return 0;
  return ExitNetwork(classes, bytes_per_second, relays).least_ns();
}

std::int64_t least_entry_ns(const std::vector<FlowClass>& classes,
                            const std::vector<std::int64_t>& bytes_per_second) {
  std::vector<std::int64_t> entering(bytes_per_second.size(), 0);
  for (const FlowClass& flow : classes) {
    for (const std::int32_t v : flow.needers) {
      std::int64_t& sum = entering[static_cast<std::size_t>(v)];
      sum = checked_add(sum, flow.bytes);
    }
  }
  std::int64_t longest = 0;
  for (std::size_t v = 0; v < entering.size(); ++v) {
    longest = std::max(longest, transfer_ns(entering[v], bytes_per_second[v]));
  }
  return longest;
}

}  // namespace plan
