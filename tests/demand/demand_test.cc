#include "libplan/demand/demand.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "libplan/base/error.h"
#include "libplan/demand/state_groups.h"

namespace plan {
namespace {

// A layout of one or more tensors under hand-made shards.
class LayoutBuilder {
 public:
  explicit LayoutBuilder(std::vector<StateKind> states) { layout_.states = std::move(states); }

  TensorId tensor(const std::string& name, Dims shape, bool padding = false) {
    layout_.tensors.push_back({name, shape, -1, padding});
    return TensorId(static_cast<std::int32_t>(layout_.tensors.size()) - 1);
  }
  void hold(std::int32_t device, TensorId tensor, const Box& box, const std::vector<Lane>& lanes) {
    Storage storage;
    storage.lanes = lanes;
    storage.size_elems = box.num_elements();
    storage.shards.push_back({tensor, box, 0, contiguous_strides(box.extents())});
    DeviceShards& shards = at(device);
    storage.key = std::to_string(shards.storages.size());
    shards.storages.push_back(std::move(storage));
  }
  DeviceShards& at(std::int32_t device) {
    for (DeviceShards& known : layout_.devices) {
      if (known.device.value == device) return known;
    }
    layout_.devices.push_back({DeviceId(device), {}});
    return layout_.devices.back();
  }
  Layout take() {
    std::sort(layout_.devices.begin(), layout_.devices.end(),
              [](const DeviceShards& a, const DeviceShards& b) { return a.device < b.device; });
    return std::move(layout_);
  }

 private:
  Layout layout_;
};

StateKind kind(const std::string& name) { return builtin_state_kind(name).value(); }

std::vector<Lane> fp32_lanes(std::int32_t count) {
  std::vector<Lane> lanes;
  for (std::int32_t i = 0; i < count; ++i) lanes.push_back({StateId(i), Dtype::Float32});
  return lanes;
}

std::vector<std::int32_t> devices_of(const Demand& demand, DeviceSetId set) {
  std::vector<std::int32_t> numbers;
  for (const DeviceId device : demand.devices(set)) numbers.push_back(device.value);
  return numbers;
}

using Numbers = std::vector<std::int32_t>;

TEST_CASE("rows to columns: the example of the header") {
  LayoutBuilder source({kind("main_param")});
  const TensorId t = source.tensor("t", {4, 4});
  source.hold(0, t, {{0, 2}, {0, 4}}, fp32_lanes(1));
  source.hold(1, t, {{2, 4}, {0, 4}}, fp32_lanes(1));
  LayoutBuilder target({kind("main_param")});
  target.tensor("t", {4, 4});
  target.hold(0, t, {{0, 4}, {0, 2}}, fp32_lanes(1));
  target.hold(1, t, {{0, 4}, {2, 4}}, fp32_lanes(1));

  const Layout from = source.take();
  const Demand demand = build_demand(from, target.take(), single_node(2));
  REQUIRE(demand.atoms.size() == 4);
  CHECK(demand.atoms[1].box == Box{{0, 2}, {2, 4}});
  CHECK(devices_of(demand, demand.atoms[1].holders) == Numbers{0});
  CHECK(devices_of(demand, demand.atoms[1].needers) == Numbers{1});
  CHECK(num_bytes(demand.atoms[1]) == 16);
  const Traffic traffic = traffic_of_group(demand, from, single_node(2), StateGroupId(0));
  CHECK(traffic.needed == 16);
  CHECK(traffic.local == 8);
  CHECK(traffic.received == 8);
  CHECK(traffic.max_received_by_one_device == 4);
  CHECK(traffic.least_into_nodes == 0);
}

// What each element of a tensor of extent 9 x 9 has: holders and needers.
struct Ends {
  std::set<std::int32_t> holders, needers;
  friend auto operator<=>(const Ends&, const Ends&) = default;
};

TEST_CASE("atoms agree with single elements on random layouts, dead devices too") {
  std::mt19937 random(11);
  const auto number = [&](std::int32_t below) {
    return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(below));
  };
  constexpr std::int32_t kDevices = 5;
  for (int round = 0; round < 200; ++round) {
    std::map<std::pair<std::int64_t, std::int64_t>, Ends> ends;
    LayoutBuilder builders[2] = {LayoutBuilder({kind("main_param")}),
                                 LayoutBuilder({kind("main_param")})};
    const std::int32_t dead = round % 3 == 0 ? number(kDevices) : -1;
    for (const bool target : {false, true}) {
      LayoutBuilder& builder = builders[target ? 1 : 0];
      const TensorId t = builder.tensor("t", {9, 9});
      for (std::int32_t d = 0; d < kDevices; ++d) {
        if (target && d == dead) continue;
        Box box;
        box.count = 2;
        for (int axis = 0; axis < 2; ++axis) {
          const std::int32_t a = number(9);
          box[axis] = {a, a + 1 + number(9 - a)};
        }
        builder.hold(d, t, box, fp32_lanes(1));
        for (std::int64_t i = box[0].begin; i < box[0].end; ++i) {
          for (std::int64_t j = box[1].begin; j < box[1].end; ++j) {
            Ends& element = ends[{i, j}];
            if (target) {
              element.needers.insert(d);
            } else if (d != dead) {
              element.holders.insert(d);
            }
          }
        }
      }
    }
    Topology topology = single_node(kDevices);
    if (dead >= 0) topology = with_dead(topology, {DeviceId(dead)});
    const Demand demand = build_demand(builders[0].take(), builders[1].take(), topology);

    std::map<std::pair<std::int64_t, std::int64_t>, Ends> found;
    const auto add = [&](const Atom& atom) {
      Ends both;
      for (const std::int32_t d : devices_of(demand, atom.holders)) both.holders.insert(d);
      for (const std::int32_t d : devices_of(demand, atom.needers)) both.needers.insert(d);
      for (std::int64_t i = atom.box[0].begin; i < atom.box[0].end; ++i) {
        for (std::int64_t j = atom.box[1].begin; j < atom.box[1].end; ++j) {
          REQUIRE(found.emplace(std::pair{i, j}, both).second);
        }
      }
    };
    for (const Atom& atom : demand.atoms) {
      REQUIRE_FALSE(demand.devices(atom.holders).empty());
      add(atom);
    }
    for (const Atom& atom : demand.lost) {
      REQUIRE(demand.devices(atom.holders).empty());
      add(atom);
    }
    std::erase_if(ends, [](const auto& entry) { return entry.second.needers.empty(); });
    CAPTURE(round, dead);
    REQUIRE(found == ends);
    REQUIRE(demand.fills.empty());
    std::int64_t bytes = 0;
    for (const AtomClass& one : demand.classes) bytes += one.bytes;
    std::int64_t expected = 0;
    for (const Atom& atom : demand.atoms) expected += num_bytes(atom);
    REQUIRE(bytes == expected);
  }
}

TEST_CASE("lost state is named with its tensor, box, states and dead holders") {
  LayoutBuilder source({kind("main_param"), kind("exp_avg")});
  const TensorId t = source.tensor("layer.weight", {4, 2});
  source.hold(0, t, {{0, 2}, {0, 2}}, fp32_lanes(2));
  source.hold(3, t, {{2, 4}, {0, 2}}, fp32_lanes(2));
  LayoutBuilder target({kind("main_param"), kind("exp_avg")});
  target.tensor("layer.weight", {4, 2});
  target.hold(1, t, {{0, 4}, {0, 2}}, fp32_lanes(2));
  const Layout from = source.take();
  const Layout to = target.take();

  const Topology whole = single_node(4);
  CHECK_NOTHROW(require_nothing_lost(build_demand(from, to, whole), from, whole));

  const Topology broken = with_dead(whole, {DeviceId(3)});
  const Demand demand = build_demand(from, to, broken);
  REQUIRE(demand.lost.size() == 1);
  CHECK(demand.lost[0].box == Box{{2, 4}, {0, 2}});
  CHECK(traffic_of_group(demand, from, broken, StateGroupId(0)).lost == 4);
  CHECK(traffic_of_group(demand, from, broken, StateGroupId(0)).needed == 8);
  CHECK(traffic_of_group(demand, from, broken, StateGroupId(0)).received == 4);
  try {
    require_nothing_lost(demand, from, broken);
    FAIL("expected an error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::Infeasible);
    const std::string message = error.what();
    for (const char* part :
         {"layer.weight", "[2, 4) x [0, 2)", "main_param, exp_avg", "dead devices {3}"}) {
      CAPTURE(part, message);
      CHECK(message.find(part) != std::string::npos);
    }
  }
}

TEST_CASE("a dead device cannot be in the target") {
  LayoutBuilder source({kind("main_param")});
  source.hold(0, source.tensor("t", {2}), {{0, 2}}, fp32_lanes(1));
  LayoutBuilder target({kind("main_param")});
  target.hold(1, target.tensor("t", {2}), {{0, 2}}, fp32_lanes(1));
  CHECK_THROWS_AS(
      build_demand(source.take(), target.take(), with_dead(single_node(2), {DeviceId(1)})), Error);
}

TEST_CASE("padding that no one holds is filled, not lost, and never counted") {
  LayoutBuilder source({kind("main_param")});
  TensorId rows = source.tensor("vocab.padding", {4}, true);
  source.hold(0, rows, {{0, 1}}, fp32_lanes(1));
  LayoutBuilder target({kind("main_param")});
  target.tensor("vocab.padding", {4}, true);
  target.hold(1, rows, {{0, 4}}, fp32_lanes(1));
  const Layout from = source.take();
  const Demand demand = build_demand(from, target.take(), single_node(2));
  CHECK(demand.lost.empty());
  REQUIRE(demand.fills.size() == 1);
  CHECK(demand.fills[0].box == Box{{1, 4}});
  REQUIRE(demand.atoms.size() == 1);
  REQUIRE(demand.classes.size() == 1);
  CHECK(demand.classes[0].padding);
  CHECK(traffic_of_group(demand, from, single_node(2), StateGroupId(0)).needed == 0);
}

TEST_CASE("each element enters a node once, unless the node has it") {
  LayoutBuilder source({kind("main_param")});
  const TensorId t = source.tensor("t", {8});
  source.hold(0, t, {{0, 8}}, fp32_lanes(1));
  LayoutBuilder target({kind("main_param")});
  target.tensor("t", {8});
  for (const std::int32_t device : {1, 2, 3}) target.hold(device, t, {{0, 8}}, fp32_lanes(1));
  const Layout from = source.take();
  const Topology topology = parse_topology_shorthand("gpus=2+2");
  const Demand demand = build_demand(from, target.take(), topology);
  const Traffic traffic = traffic_of_group(demand, from, topology, StateGroupId(0));
  CHECK(traffic.needed == 24);
  CHECK(traffic.received == 24);
  CHECK(traffic.least_into_nodes == 8);
  CHECK(traffic.max_least_into_one_node == 8);
}

// --- state groups ---

std::vector<std::vector<std::int32_t>> groups_of(const Layout& source, const Layout& target) {
  std::vector<std::vector<std::int32_t>> groups;
  for (const StateGroup& group : state_groups(source, target)) {
    groups.emplace_back();
    for (const StateId state : group.states) groups.back().push_back(state.value);
  }
  return groups;
}

Layout with_lanes(const std::vector<std::vector<Lane>>& storages) {
  LayoutBuilder builder({kind("main_param"), kind("exp_avg"), kind("exp_avg_sq")});
  const TensorId t = builder.tensor("t", {static_cast<std::int64_t>(storages.size())});
  for (std::size_t i = 0; i < storages.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    builder.hold(0, t, {{at, at + 1}}, storages[i]);
  }
  return builder.take();
}

TEST_CASE("states share a group where they always lie side by side") {
  using List = std::vector<std::vector<std::int32_t>>;
  const Lane main{StateId(0), Dtype::Float32};
  const Lane avg{StateId(1), Dtype::Float32};
  const Lane sq{StateId(2), Dtype::Float32};
  const Lane half{StateId(1), Dtype::BFloat16};
  const Layout all = with_lanes({{main, avg, sq}});
  CHECK(groups_of(all, all) == List{{0, 1, 2}});
  // A tensor without a main copy keeps main_param apart.
  CHECK(groups_of(with_lanes({{main, avg, sq}, {avg, sq}}), all) == List{{0}, {1, 2}});
  CHECK(groups_of(all, with_lanes({{main, avg, sq}, {avg, sq}})) == List{{0}, {1, 2}});
  // Other allocations on one side.
  CHECK(groups_of(with_lanes({{main}, {avg}, {sq}}), all) == List{{0}, {1}, {2}});
  // Elements of another size.
  CHECK(groups_of(with_lanes({{main, half, sq}}), with_lanes({{main, half, sq}})) ==
        List{{0}, {1}, {2}});
  // A state between two others in one storage only.
  CHECK(groups_of(with_lanes({{main, avg, sq}}), with_lanes({{main, sq}})) == List{{0}, {2}});
  // What the target does not hold is no demand.
  CHECK(groups_of(all, with_lanes({{main}})) == List{{0}});
}

TEST_CASE("bytes of an element are summed over the group") {
  const Layout layout = with_lanes({{{StateId(0), Dtype::Float32}, {StateId(1), Dtype::Float32}}});
  const Storage& storage = layout.devices[0].storages[0];
  CHECK(bytes_per_elem(storage, {{StateId(0), StateId(1)}}) == 8);
  CHECK(bytes_per_elem(storage, {{StateId(1)}}) == 4);
  CHECK(lane_of(storage, StateId(1)) == 1);
  CHECK(lane_of(storage, StateId(2)) == -1);
  CHECK_FALSE(has_lane(storage, StateId(2)));
}

}  // namespace
}  // namespace plan
