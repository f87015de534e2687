#include "libplan/topology/topology.h"

#include <catch2/catch.hpp>

#include "libplan/base/error.h"

namespace plan {
namespace {

TEST_CASE("single node has the default prices") {
  const Topology topology = single_node(8);
  CHECK(topology == parse_topology_shorthand("nodes=1,gpus=8,nvlink=400GB/s,nic=25GB/s"));
  CHECK(topology.num_devices() == 8);
  CHECK_THROWS_AS(single_node(0), Error);
}

TEST_CASE("node_of finds devices of interleaved nodes") {
  Topology topology = parse_topology_shorthand("nodes=3,gpus=2");
  topology.nodes[0].devices = {DeviceId(0), DeviceId(10)};
  topology.nodes[1].devices = {DeviceId(3), DeviceId(5)};
  topology.nodes[2].devices = {DeviceId(1), DeviceId(4)};
  for (std::int32_t n = 0; n < 3; ++n) {
    for (const DeviceId device : topology.nodes[static_cast<std::size_t>(n)].devices) {
      CHECK(topology.node_of(device) == NodeId(n));
    }
  }
  CHECK_FALSE(topology.has(DeviceId(2)));
  CHECK_FALSE(topology.has(DeviceId()));
}

TEST_CASE("every broken invariant is refused") {
  const Topology good = parse_topology_shorthand("nodes=2,gpus=2");
  CHECK_NOTHROW(validate(good));
  const auto refused = [&](auto&& damage, const char* message) {
    Topology bad = good;
    damage(bad);
    CHECK_THROWS_WITH(validate(bad), Catch::Contains(message));
  };
  refused([](Topology& t) { t.nodes.clear(); }, "no node");
  refused([](Topology& t) { t.nodes[1].devices.clear(); }, "at least one device");
  refused([](Topology& t) { t.nodes[1].devices[0] = DeviceId(-3); }, "0 or more");
  refused([](Topology& t) { std::swap(t.nodes[1].devices[0], t.nodes[1].devices[1]); }, "ascend");
  refused([](Topology& t) { t.nodes[1] = t.nodes[0]; }, "two nodes have the name");
  refused([](Topology& t) { t.nodes[1].devices = t.nodes[0].devices, t.nodes[1].nics.clear(); },
          "also on another node");
  refused([](Topology& t) { t.nodes[1].nics[0].devices = {DeviceId(0)}; }, "belong to its node");
  refused([](Topology& t) { t.nodes[1].nics[0].devices.clear(); }, "at least one device");
  refused([](Topology& t) { t.nodes[1].nvlink.bytes_per_second = 0; }, "bytes per second");
  refused([](Topology& t) { t.nodes[1].nics[1].price.latency_ns = -1; }, "latency");
  refused([](Topology& t) { t.dead = {DeviceId(7)}; }, "on no node");
  refused([](Topology& t) { t.dead = {DeviceId(1), DeviceId(1)}; }, "dead devices must ascend");
}

TEST_CASE("with_dead refuses unknown devices") {
  CHECK_THROWS_WITH(with_dead(single_node(2), {DeviceId(2)}), Catch::Contains("dead device 2"));
}

}  // namespace
}  // namespace plan
