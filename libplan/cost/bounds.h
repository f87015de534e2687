// Bounds: what no schedule can beat, worked out from the Demand alone. Numbers B1, B2, B3, B4 and
// B10 are those of the README's "Bounds".
#pragma once

#include <cstdint>
#include <vector>

#include "libplan/demand/demand.h"
#include "libplan/layout/layout.h"
#include "libplan/topology/topology.h"

namespace plan {

struct Bounds {
  std::int64_t received_bytes = 0;      // B1: bytes that must reach devices, summed
  std::int64_t max_received_bytes = 0;  // B1 of the device that needs most
  std::int64_t inter_node_bytes = 0;    // B2: each byte once per node that needs and lacks it
  std::int64_t one_hop_nic_ns = 0;      // B3 at node level: no relays between nodes
  std::int64_t nic_ns = 0;              // B4 at node level: relays allowed
  std::int64_t makespan_ns = 0;         // B4, every forced NVLink port, and one latency
  std::int64_t peak_bytes = 0;          // B10: max over devices of max(source, target) storage
};

// Vocabulary padding is not counted. Times are among schedules with least inter-node bytes.
Bounds bounds(const Demand& demand, const Layout& source, const Layout& target,
              const Topology& topology);

}  // namespace plan
