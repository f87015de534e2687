// S2xx: world size, expert grid, order of the ranks; S120 and S121: the topology.
#include <algorithm>
#include <array>
#include <set>

#include "libplan/strategy/check_entry.h"
#include "libplan/strategy/rank_grid.h"
#include "libplan/strategy/rank_order.h"

namespace plan::check {
namespace {

// "24, 48": the multiples of `divisor` on both sides of `value`.
std::string nearest_multiples(std::int64_t divisor, std::int64_t value) {
  const std::int64_t below = value / divisor * divisor;
  std::string text = below > 0 ? num(below) : "";
  if (divisor <= INT32_MAX && below + divisor <= INT32_MAX) {
    text += (text.empty() ? "" : " or ") + num(below + divisor);
  }
  return text;
}

std::string product_text(std::int64_t a, std::int64_t b, std::int64_t c) {
  return num(a) + "·" + num(b) + "·" + num(c) + " = " + num(saturating_product({a, b, c}));
}

// S201.
bool check_world_size(EntryChecker& c) {
  if (!c.usable({c.kWorld, c.kTp, c.kPp, c.kCp})) return false;
  const std::int64_t product = saturating_product({c.tp(), c.pp(), c.cp()});
  if (product <= c.world() && c.world() % product == 0) return true;
  const std::string sizes = nearest_multiples(product, c.world());
  c.error("S201", kAll, c.kWorld,
          "tp·pp·cp = " + product_text(c.tp(), c.pp(), c.cp()) + " must divide world_size, found " +
              num(c.world()),
          sizes.empty() ? "shrink tp, pp or cp" : "set world_size to " + sizes);
  return false;
}

// S202.
bool check_expert_grid(EntryChecker& c) {
  if (!c.usable({c.kWorld, c.kPp, c.kEp}) || !c.etp_usable()) return false;
  const std::int64_t product = saturating_product({c.etp(), c.ep(), c.pp()});
  if (product <= c.world() && c.world() % product == 0) return true;
  const std::int64_t others = saturating_product({c.ep(), c.pp()});
  const bool etp_fits = others <= c.world() && c.world() % others == 0;
  const char* key = c.ep() > 1 || !c.gives(c.kEtp) ? c.kEp : c.kEtp;
  c.error("S202", kAll, key,
          "etp·ep·pp = " + product_text(c.etp(), c.ep(), c.pp()) +
              " must divide world_size, found " + num(c.world()),
          etp_fits
              ? "set expert_tensor_parallel_size to one of " + small_divisors(c.world() / others)
              : "choose ep·pp that divides world_size");
  return false;
}

// S203-S206, S208; S207. Without readable sizes only the tokens can be checked.
bool check_order(EntryChecker& c, bool sizes_ok) {
  if (!c.usable({c.kOrder})) return false;
  const RankOrder order = resolve_order(c.s, c.version());
  if (order.fault) {
    if (!sizes_ok && order.fault->rule != "S203") return false;
    const Versions versions = order.fault->rule == "S208" ? kNewest : kAll;
    c.error(order.fault->rule.c_str(), versions, c.kOrder, order.fault->message, order.fault->fix);
    return false;
  }
  if (c.s.order != "tp-cp-ep-dp-pp" && c.s.order != "tp-cp-ep-pp-dp") {
    c.note("S207", kAll, c.kOrder,
           "Megatron's training script can only ask for tp-cp-ep-dp-pp or tp-cp-ep-pp-dp, found " +
               quoted(c.s.order));
  }
  return sizes_ok;
}

// The first device that the entry names and the topology lacks. A dead one may be named: it was
// there before the switch.
std::string missing_device(const EntryChecker& c, const Topology& topology) {
  for (const DeviceId device : c.s.ranks) {
    if (!topology.has(device)) return "the topology has no device " + num(device.value);
  }
  return {};
}

// S121. The topology bounds the ranks, so they can be looked at one by one.
void check_tp_nodes(EntryChecker& c, const Topology& topology) {
  Strategy plain = c.s;
  plain.num_distributed_optimizer_instances = 1;  // S601 and S602 are checked elsewhere
  for (const std::vector<std::int32_t>& group : RankGrid::make(plain, c.version()).groups("tp")) {
    std::set<NodeId> nodes;
    for (const std::int32_t rank : group) {
      if (!topology.has(c.s.device_of(rank))) return;  // sparse ids and no "ranks"
      nodes.insert(topology.node_of(c.s.device_of(rank)));
    }
    if (nodes.size() <= 1) continue;
    const Node& node = topology.nodes[static_cast<std::size_t>(nodes.begin()->value)];
    c.note("S121", kAll, c.kTp,
           "TP groups of " + num(c.tp()) + " span " + num(static_cast<std::int64_t>(nodes.size())) +
               " nodes of " + num(static_cast<std::int64_t>(node.devices.size())),
           "keep tp within a node");
    return;
  }
}

}  // namespace

void check_grid(EntryChecker& c) {
  Entry& entry = c.entry;
  const bool error_before = entry.has_error;
  entry.has_error = false;
  entry.dense_ok = check_world_size(c);
  if (!entry.has_error) entry.expert_ok = check_expert_grid(c);
  if (!entry.has_error) entry.rank_rules_ok = check_order(c, entry.dense_ok && entry.expert_ok);
  entry.rank_error = entry.has_error;
  entry.has_error |= error_before;
}

void check_entry_topology(EntryChecker& c) {
  if (!c.options.topology || !c.usable({c.kWorld, "ranks"})) return;
  const Topology& topology = *c.options.topology;
  std::set<DeviceId> dead(topology.dead.begin(), topology.dead.end());
  for (const DeviceId device : c.options.dead_ranks) {
    if (topology.has(device)) dead.insert(device);
  }
  const std::int64_t living = topology.num_devices() - static_cast<std::int64_t>(dead.size());
  if (c.world() > living) {
    c.error("S120", kAll, c.kWorld,
            "needs " + num(c.world()) + " ranks, the topology has " + num(living) +
                (dead.empty() ? "" : " living devices"),
            "shrink world_size to at most " + num(living));
    return;
  }
  const std::string missing = missing_device(c, topology);
  if (!missing.empty()) {
    c.error("S120", kAll, "ranks", missing + ", expected devices of the topology",
            "name other devices");
    return;
  }
  if (c.entry.rank_rules_ok) check_tp_nodes(c, topology);
}

}  // namespace plan::check
