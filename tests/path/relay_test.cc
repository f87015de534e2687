// Relays: no algorithm makes them yet, so the routes are written by hand, lowered, proved and
// replayed.
#include <catch2/catch.hpp>

#include "libplan/base/error.h"
#include "libplan/execute/host/oracle.h"
#include "libplan/optimize/optimize.h"
#include "libplan/schedule/lower.h"
#include "libplan/schedule/validate.h"
#include "libplan/verify/verify.h"

namespace plan::test {
namespace {

// Device 0 holds all of a 4 x 4 tensor in two states; devices 1, 2 and 3 need columns [0, 2), all,
// and rows [1, 4) of it; device 4 is on neither side.
struct Example {
  Layout source;
  Layout target;
  Topology topology = read_topology("nodes=1,gpus=5");
};

Storage storage_of(const Box& box) {
  return {"w",
          {{StateId(0), Dtype::Float32}, {StateId(1), Dtype::Float32}},
          box.num_elements(),
          MemoryKind::Device,
          {{TensorId(0), box, 0, contiguous_strides(box.extents())}}};
}

Example make_example() {
  Example example;
  example.source.tensors = {{"w", Dims{4, 4}, -1, false}};
  example.source.states = {*builtin_state_kind("exp_avg"), *builtin_state_kind("exp_avg_sq")};
  example.target = example.source;
  example.source.devices = {{DeviceId(0), {storage_of({{0, 4}, {0, 4}})}}};
  example.target.devices = {{DeviceId(1), {storage_of({{0, 4}, {0, 2}})}},
                            {DeviceId(2), {storage_of({{0, 4}, {0, 4}})}},
                            {DeviceId(3), {storage_of({{1, 4}, {0, 4}})}}};
  return example;
}

// Every part goes 0 -> relay, then from the relay to each needer in turn, one round later each.
RoutedDemand through_relay(const Demand& demand, DeviceId relay) {
  RoutedDemand routed;
  for (std::size_t a = 0; a < demand.atoms.size(); ++a) {
    const auto part = static_cast<std::int32_t>(a);
    routed.parts.push_back({part, demand.atoms[a].box});
    const auto first = static_cast<std::int32_t>(routed.hops.size());
    routed.hops.push_back({part, DeviceId(0), relay, -1, 0});
    std::int32_t round = 1;
    for (const DeviceId needer : demand.devices(demand.atoms[a].needers)) {
      if (needer != relay) routed.hops.push_back({part, relay, needer, first, round++});
    }
  }
  return routed;
}

void check_replay(const Example& example, const Demand& demand, const RoutedDemand& routed,
                  Packing packing) {
  validate(routed, demand);
  const ir::Schedule schedule =
      lower(demand, routed, example.source, example.target, example.topology, {packing, true, 256});
  validate(schedule);
  const verify::Report report = verify::verify(schedule, example.source, example.target);
  for (const verify::Diagnostic& finding : report.findings) UNSCOPED_INFO(to_string(finding));
  REQUIRE(report.ok());
  const CheckedReplay checked = replay_checked(schedule);
  INFO(to_string(checked.targets));
  REQUIRE(checked.ok());
  REQUIRE(checked.targets.elements == 3 * 2 * (8 + 16 + 12));
}

TEST_CASE("a relay that needs nothing itself forwards through scratch") {
  const Example example = make_example();
  const Demand demand = build_demand(example.source, example.target, example.topology);
  for (const Packing packing : {Packing::Never, Packing::Always}) {
    check_replay(example, demand, through_relay(demand, DeviceId(4)), packing);
  }
}

TEST_CASE("a needer forwards out of its target storage") {
  const Example example = make_example();
  const Demand demand = build_demand(example.source, example.target, example.topology);
  for (const Packing packing : {Packing::Never, Packing::Always}) {
    check_replay(example, demand, through_relay(demand, DeviceId(2)), packing);
  }
}

TEST_CASE("assign_rounds keeps relays behind what they receive and the cap on messages") {
  const Example example = make_example();
  const Demand demand = build_demand(example.source, example.target, example.topology);
  for (const std::int32_t window_ops : {2, 3, 256}) {
    const RoutedDemand routed = assign_rounds(through_relay(demand, DeviceId(4)), window_ops);
    check_replay(example, demand, routed, Packing::Never);
  }
}

TEST_CASE("routes that break an invariant are our own fault") {
  const Example example = make_example();
  const Demand demand = build_demand(example.source, example.target, example.topology);
  const RoutedDemand good = through_relay(demand, DeviceId(4));
  RoutedDemand same_round = good;
  for (Hop& hop : same_round.hops) hop.round = 0;
  CHECK_THROWS_AS(validate(same_round, demand), InternalError);
  RoutedDemand not_holder = good;
  not_holder.hops.front().sender = DeviceId(3);
  CHECK_THROWS_AS(validate(not_holder, demand), InternalError);
  RoutedDemand twice = good;
  twice.hops.push_back(twice.hops.back());
  CHECK_THROWS_AS(validate(twice, demand), InternalError);
  RoutedDemand missing = good;
  missing.hops.pop_back();
  CHECK_THROWS_AS(validate(missing, demand), InternalError);
}

TEST_CASE("a box that a target holds twice is received once and copied") {
  Example example = make_example();
  example.target.devices = {
      {DeviceId(1), {storage_of({{0, 4}, {0, 4}}), storage_of({{0, 4}, {0, 4}})}}};
  example.target.devices[0].storages[1].key = "tied";
  const Demand demand = build_demand(example.source, example.target, example.topology);
  const RoutedDemand routed = assign_rounds(route_direct(demand), 256);
  const ir::Schedule schedule = lower(demand, routed, example.source, example.target,
                                      example.topology, {Packing::Never, true, 256});
  REQUIRE(verify::verify(schedule, example.source, example.target).ok());
  REQUIRE(replay_checked(schedule).ok());
  std::int64_t sent = 0;
  for (const ir::Program& program : schedule.programs) {
    for (const ir::Send& send : program.sends) sent += ir::num_bytes(program, send);
  }
  CHECK(sent == 2 * 16 * 4);
}

}  // namespace
}  // namespace plan::test
