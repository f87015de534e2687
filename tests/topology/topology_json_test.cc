#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "libplan/base/error.h"
#include "libplan/base/files.h"
#include "libplan/topology/topology.h"

namespace plan {
namespace {

const std::string kSparse = R"({
 "format": "libplan-topology", "version": 1,
 "links": [{"name": "fast", "bytes_per_second": 400000000000, "latency_ns": 2000},
           {"name": "slow", "bytes_per_second": 12500000000, "latency_ns": 5000}],
 "nodes": [{"name": "a", "devices": [9, 4], "nvlink": "fast",
            "nics": [{"devices": [4, 9], "link": "slow"}]},
           {"devices": [0, 2000000000], "nvlink": "slow", "nics": []}],
 "dead_devices": [9]
})";

TEST_CASE("topology file with sparse ids") {
  const Topology topology = parse_topology_json(kSparse, "t.json");
  REQUIRE(topology.nodes.size() == 2);
  CHECK(topology.nodes[0].devices == std::vector{DeviceId(4), DeviceId(9)});
  CHECK(topology.nodes[0].nics[0].price == LinkPrice{12'500'000'000, 5000});
  CHECK(topology.nodes[1].name == "node1");
  CHECK(topology.node_of(DeviceId(2'000'000'000)) == NodeId(1));
  CHECK(topology.node_of(DeviceId(9)) == NodeId(0));
  CHECK(topology.is_dead(DeviceId(9)));
  CHECK_FALSE(topology.is_dead(DeviceId(4)));
  CHECK_FALSE(topology.has(DeviceId(1)));
  CHECK_THROWS_WITH(topology.node_of(DeviceId(1)), Catch::Contains("no device 1"));
}

TEST_CASE("topology JSON is read back without loss, equal topologies give equal bytes") {
  const std::vector<std::string> texts{
      "nodes=16,gpus=8,nvlink=400GB/s,nic=25GB/s", "gpus=8+8+4,nics=4", "gpus=2,nics=4",
      "gpus=3,nic=7B/s,nic_latency=0ns", "nodes=2,gpus=1,nvlink=25GB/s,nvlink_latency=5us"};
  for (const std::string& text : texts) {
    CAPTURE(text);
    const Topology topology =
        with_dead(parse_topology_shorthand(text), {DeviceId(1), DeviceId(0), DeviceId(1)});
    CHECK(topology.dead == std::vector{DeviceId(0), DeviceId(1)});
    const std::string json = to_json(topology);
    const Topology again = parse_topology_json(json, "again");
    CHECK(again == topology);
    CHECK(to_json(again) == json);
    CHECK(digest(again) == digest(topology));
  }
  const Topology sparse = parse_topology_json(kSparse, "t.json");
  CHECK(parse_topology_json(to_json(sparse), "again") == sparse);
  CHECK(digest(sparse) != digest(parse_topology_shorthand("gpus=2")));
}

TEST_CASE("topology file faults carry their place") {
  struct Row {
    std::string from, to;  // replaced in kSparse
    std::string message;
  };
  const std::vector<Row> table{
      {"libplan-topology", "libplan-plan", "t.json:/format"},
      {"\"version\": 1", "\"version\": 2", "expected version 1, found 2"},
      {"\"version\": 1", "\"version\": \"1\"", "expected an integer"},
      {"\"format\": \"libplan-topology\",", "", "\"format\" is missing"},
      {"dead_devices", "dead", "unknown key \"dead\""},
      {"\"devices\": [9, 4]", "\"devices\": [4, 4]", "device 4 is given twice"},
      {"\"devices\": [9, 4]", "\"devices\": []", "at least one device"},
      {"\"devices\": [9, 4]", "\"devices\": [-9, 4]", "t.json:/nodes/0/devices/0"},
      {"\"devices\": [9, 4]", "\"devices\": [9, 4, 0]", "device 0 is also on another node"},
      {"\"devices\": [4, 9]", "\"devices\": [4, 0]", "a NIC's devices belong to its node"},
      {"\"dead_devices\": [9]", "\"dead_devices\": [1]", "dead device 1 is on no node"},
      {"\"nvlink\": \"fast\"", "\"nvlink\": \"fats\"", "the nearest is \"fast\""},
      {"\"name\": \"slow\"", "\"name\": \"fast\"", "given twice"},
      {"\"name\": \"a\"", "\"name\": \"node1\"", "two nodes have the name"},
      {"12500000000", "0", "expected 1 to"},
      {"12500000000", "12.5e9", "expected an integer"},
      {"5000}", "-1}", "expected 0 to"},
      {"[9]\n}", "[9],\n}", "t.json"},
  };
  for (const Row& row : table) {
    CAPTURE(row.from, row.to);
    std::string text = kSparse;
    REQUIRE(text.find(row.from) != std::string::npos);
    text.replace(text.find(row.from), row.from.size(), row.to);
    CHECK_THROWS_WITH(parse_topology_json(text, "t.json"), Catch::Contains(row.message));
  }
}

TEST_CASE("read_topology takes a file name or the shorthand") {
  const std::string path = "topology_json_test=1.json";
  write_file(path, kSparse);
  CHECK(read_topology(path) == parse_topology_json(kSparse, path));
  CHECK(read_topology("gpus=2") == parse_topology_shorthand("gpus=2"));
  try {
    read_topology("no-such-file.json");
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::Unreadable);
  }
  std::remove(path.c_str());
}

}  // namespace
}  // namespace plan
