// What any switch between two golden layouts must move, against counts worked out element by
// element from the dumps (tests/golden/megatron/expected-traffic.json).
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "libplan/base/error.h"
#include "libplan/base/files.h"
#include "libplan/demand/demand.h"
#include "tests/layout/golden_case.h"

namespace plan {
namespace {

constexpr std::int32_t kCheckpoint = 1000;  // a device beyond all ranks

struct Side {
  GoldenCase golden;
  Layout param;
  std::optional<Layout> optimizer;  // none if Megatron-Core cannot build the optimizer
};

const Side& side(const std::string& name) {
  static std::map<std::string, Side> sides;
  const auto known = sides.find(name);
  if (known != sides.end()) return known->second;
  Side made{read_golden_case(name), {}, {}};
  const auto layout = [&](const std::vector<std::string>& states) {
    return megatron_layout(made.golden.model, made.golden.strategy, made.golden.options,
                           state_kinds(states));
  };
  made.param = layout({"param"});
  if (made.golden.optimizer_failed()) {
    CHECK_THROWS_AS(layout({"main_param", "exp_avg", "exp_avg_sq"}), Error);
  } else {
    made.optimizer = layout({"main_param", "exp_avg", "exp_avg_sq"});
  }
  return sides.emplace(name, std::move(made)).first->second;
}

// Nodes of `gpus` devices, the last one smaller if need be, and one for the checkpoint.
Topology nodes_of(std::int32_t devices, std::int32_t gpus) {
  Topology topology;
  for (std::int32_t first = 0; first < devices; first += gpus) {
    Node& node = topology.nodes.emplace_back();
    for (std::int32_t d = first; d < std::min(first + gpus, devices); ++d) {
      node.devices.emplace_back(d);
    }
  }
  topology.nodes.emplace_back().devices.emplace_back(kCheckpoint);
  return topology;
}

// The expected counts treat state that no rank holds as coming from elsewhere: one more holder.
void add_checkpoint(const Demand& demand, Layout& source) {
  if (demand.lost.empty()) return;
  DeviceShards checkpoint;
  checkpoint.device = DeviceId(kCheckpoint);
  for (const Atom& atom : demand.lost) {
    Storage& storage = checkpoint.storages.emplace_back();
    storage.key = std::to_string(checkpoint.storages.size());
    for (const StateId state : demand.groups[static_cast<std::size_t>(atom.group.value)].states) {
      const Dtype dtype = atom.bytes_per_elem == 2 ? Dtype::BFloat16 : Dtype::Float32;
      storage.lanes.push_back({state, dtype});
    }
    storage.size_elems = atom.box.num_elements();
    storage.shards.push_back({atom.tensor, atom.box, 0, contiguous_strides(atom.box.extents())});
  }
  source.devices.push_back(std::move(checkpoint));
}

void check_traffic(Layout source, Layout target, std::int32_t devices, const JsonCursor& expected) {
  unify(source, target);
  const auto number = [&](const char* key) { return expected.at(key).as_int64(0, INT64_MAX); };
  const Demand alone = build_demand(source, target, nodes_of(devices, 2));
  REQUIRE(alone.groups.size() == 1);
  const StateGroupId group(0);
  CHECK(traffic_of_group(alone, source, nodes_of(devices, 2), group).lost == number("lost"));

  add_checkpoint(alone, source);
  for (const std::int32_t gpus : {2, 4}) {
    const Topology topology = nodes_of(devices, gpus);
    const Demand demand = build_demand(source, target, topology);
    const Traffic traffic = traffic_of_group(demand, source, topology, group);
    CHECK(traffic.needed == number("needed"));
    CHECK(traffic.local == number("local"));
    CHECK(traffic.received == number("received"));
    CHECK(traffic.max_received_by_one_device == number("max_received_by_one_rank"));
    CHECK(traffic.lost == 0);
    CHECK(traffic.least_into_nodes ==
          number(gpus == 2 ? "least_into_nodes_of_2" : "least_into_nodes_of_4"));
  }
}

TEST_CASE("traffic between golden layouts") {
  const std::string path = test_folder() + "/golden/megatron/expected-traffic.json";
  const JsonDocument document = parse_json(read_file(path), path);
  const std::vector<JsonCursor> pairs = JsonCursor::root(document).elements();
  REQUIRE(pairs.size() == 174);
  std::size_t optimizer_pairs = 0;
  for (const JsonCursor& pair : pairs) {
    const Side& source = side(pair.at("from").as_string());
    const Side& target = side(pair.at("to").as_string());
    CAPTURE(source.golden.name, target.golden.name);
    const std::int32_t devices =
        std::max(source.golden.strategy.world_size, target.golden.strategy.world_size);
    {
      INFO("param");
      check_traffic(source.param, target.param, devices, pair.at("param"));
    }
    if (source.optimizer && target.optimizer) {
      INFO("optimizer");
      check_traffic(*source.optimizer, *target.optimizer, devices, pair.at("optimizer"));
      ++optimizer_pairs;
    }
  }
  // The others have the one layout that 0.11 cannot build as their source or target.
  CHECK(optimizer_pairs == 166);
}

}  // namespace
}  // namespace plan
