#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "libplan/base/error.h"
#include "libplan/topology/topology.h"

namespace plan {
namespace {

std::vector<std::int32_t> values(const std::vector<DeviceId>& devices) {
  std::vector<std::int32_t> out;
  for (const DeviceId device : devices) out.push_back(device.value);
  return out;
}

// "0,1|2" for the devices of nodes or NICs.
std::string groups(const Topology& topology, bool nics) {
  std::string text;
  const auto add = [&](const std::vector<DeviceId>& devices) {
    text += text.empty() ? "" : "|";
    std::string group;
    for (const std::int32_t v : values(devices)) {
      group += (group.empty() ? "" : ",") + std::to_string(v);
    }
    text += group;
  };
  for (const Node& node : topology.nodes) {
    if (!nics) add(node.devices);
    for (const Nic& nic : node.nics) {
      if (nics) add(nic.devices);
    }
  }
  return text;
}

struct Good {
  std::string text;
  std::string nodes;
  std::string nics;
};

TEST_CASE("shorthand gives nodes, devices and NICs") {
  const std::vector<Good> table{
      {"gpus=2", "0,1", "0|1"},
      {"nodes=2,gpus=2", "0,1|2,3", "0|1|2|3"},
      {"gpus=2+1", "0,1|2", "0|1|2"},
      {"nodes=2,gpus=2+1", "0,1|2", "0|1|2"},
      {"nodes=2+1", "0,1|2", "0|1|2"},
      {"gpus=4,nics=2", "0,1,2,3", "0,1|2,3"},
      {"gpus=4,nics=1", "0,1,2,3", "0,1,2,3"},
      {"gpus=2,nics=4", "0,1", "0|0|1|1"},
      {"gpus=4+2,nics=2+1", "0,1,2,3|4,5", "0,1|2,3|4,5"},
      {"nics=2,gpus=4,nodes=1", "0,1,2,3", "0,1|2,3"},
  };
  for (const Good& row : table) {
    CAPTURE(row.text);
    const Topology topology = parse_topology_shorthand(row.text);
    CHECK(groups(topology, false) == row.nodes);
    CHECK(groups(topology, true) == row.nics);
  }
}

TEST_CASE("shorthand prices are exact integers") {
  struct Row {
    std::string text;
    std::int64_t bytes_per_second;
  };
  const std::vector<Row> rates{{"400GB/s", 400'000'000'000},
                               {"12.5GB/s", 12'500'000'000},
                               {"200Gb/s", 25'000'000'000},
                               {"12.5Gb/s", 1'562'500'000},
                               {"1GiB/s", 1'073'741'824},
                               {"0.5KiB/s", 512},
                               {"8b/s", 1},
                               {"0.000000001GB/s", 1},
                               {"123.456789012TB/s", 123'456'789'012'000},
                               {"1000TB/s", 1'000'000'000'000'000},
                               {"7B/s", 7},
                               {"0.3MB/s", 300'000}};
  for (const Row& row : rates) {
    CAPTURE(row.text);
    CHECK(parse_topology_shorthand("gpus=1,nic=" + row.text).nodes[0].nics[0].price ==
          LinkPrice{row.bytes_per_second, kDefaultNicLatencyNs});
    CHECK(parse_topology_shorthand("gpus=1,nvlink=" + row.text).nodes[0].nvlink ==
          LinkPrice{row.bytes_per_second, kDefaultNvlinkLatencyNs});
  }
  const std::vector<Row> times{{"2us", 2000},      {"500ns", 500}, {"1.5us", 1500},
                               {"3ms", 3'000'000}, {"0ns", 0},     {"1s", 1'000'000'000}};
  for (const Row& row : times) {
    CAPTURE(row.text);
    const Topology topology =
        parse_topology_shorthand("gpus=1,nvlink_latency=" + row.text + ",nic_latency=" + row.text);
    CHECK(topology.nodes[0].nvlink.latency_ns == row.bytes_per_second);
    CHECK(topology.nodes[0].nics[0].price.latency_ns == row.bytes_per_second);
  }
}

TEST_CASE("shorthand faults name the part") {
  struct Row {
    std::string text;
    std::string message;  // a part of it
  };
  const std::vector<Row> table{
      {"", "expected key=value"},
      {"nodes=2,", "expected key=value"},
      {"nodes", "expected key=value"},
      {"nodes=2", "expected gpus=N"},
      {"nodes=0,gpus=8", "topology part \"nodes=0\""},
      {"nodes=-1,gpus=8", "expected a number from 1"},
      {"gpus=8+", "expected a number from 1"},
      {"gpus=+8", "expected a number from 1"},
      {"gpus=8.0", "expected a number from 1"},
      {"gpus= 8", "expected a number from 1"},
      {"gpus=99999999999999999999", "expected a number from 1"},
      {"nodes=1048576,gpus=1048576", "at most 1048576 devices"},
      {"gpus=1+1,nics=1048576", "at most 1048576 NICs"},
      {"nodes=3,gpus=8+8", "gpus lists 2 nodes, nodes says 3"},
      {"nodes=8+8,gpus=8", "already gives"},
      {"gpus=8,gpus=8", "given twice"},
      {"gpus=8,nvlinks=1GB/s", "nearest known key is \"nvlink\""},
      {"gpus=8,zzzzzzzz=1", "known are nodes"},
      {"gpus=8,nic=25", "expected a rate"},
      {"gpus=8,nic=25GBps", "expected a rate"},
      {"gpus=8,nic=GB/s", "expected a rate"},
      {"gpus=8,nic=-25GB/s", "expected a rate"},
      {"gpus=8,nic=2.GB/s", "expected a decimal number"},
      {"gpus=8,nic=.5GB/s", "expected a decimal number"},
      {"gpus=8,nic=1.2.3GB/s", "expected a rate"},
      {"gpus=8,nic=1e3GB/s", "expected a rate"},
      {"gpus=8,nic=0GB/s", "expected a rate of 1 B/s"},
      {"gpus=8,nic=1001TB/s", "expected a rate of 1 B/s"},
      {"gpus=8,nic=999999999999999TB/s", ""},
      {"gpus=8,nic=1b/s", "no whole number of bytes"},
      {"gpus=8,nic=0.0000000001GB/s", "no whole number of bytes"},
      {"gpus=8,nic=1.0000000000001GB/s", "at most 12 digits"},
      {"gpus=8,nic=1234567890123456B/s", "too large"},
      {"gpus=8,nic_latency=5", "expected a latency"},
      {"gpus=8,nic_latency=0.5ns", "no whole number of nanoseconds"},
      {"gpus=8,nic_latency=1001s", "0ns to 1000s"},
      {"gpus=8,nics=3", "3 NICs for 8 devices"},
      {"gpus=8,nics=12", "12 NICs for 8 devices"},
      {"gpus=8+8,nics=8+8+8", "nics lists 3 nodes"},
      {"gpus=8+6,nics=4", "4 NICs for 6 devices"},
  };
  for (const Row& row : table) {
    CAPTURE(row.text);
    try {
      parse_topology_shorthand(row.text);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK_THAT(error.what(), Catch::Contains(row.message));
    }
  }
}

}  // namespace
}  // namespace plan
