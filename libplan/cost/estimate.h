// Estimate: what a Schedule costs on a Topology, read off the Schedule alone.
#pragma once

#include <cstdint>
#include <vector>

#include "libplan/schedule/ir.h"
#include "libplan/topology/topology.h"

namespace plan {

// Bytes are payload, each counted where it arrives on another device; vocabulary padding is apart.
struct Estimate {
  std::int64_t total_bytes = 0;  // inter_node_bytes + intra_node_bytes
  std::int64_t inter_node_bytes = 0;
  std::int64_t intra_node_bytes = 0;
  std::int64_t local_bytes = 0;    // target bytes that stay on their device, copied or taken over
  std::int64_t scalar_bytes = 0;   // opaque state
  std::int64_t padding_bytes = 0;  // vocabulary padding that moves between devices
  std::int64_t messages = 0;       // sends
  std::int64_t windows = 0;
  std::int64_t makespan_ns = 0;             // simulate()
  std::int64_t max_sent_bytes = 0;          // of the busiest sender
  std::vector<std::int64_t> peak_bytes;     // per rank: storages and scratch alive together
  std::vector<std::int64_t> staging_bytes;  // per rank: scratch alive together
};

// The schedule has passed validate() and holds the programs of all its ranks.
Estimate estimate(const ir::Schedule& schedule, const Topology& topology);

// Storages and scratch alive together, at most, for each program of the schedule.
std::vector<std::int64_t> peak_bytes(const ir::Schedule& schedule);

// Time until the last rank is done, in ns. A window starts on a rank when its windows before are
// done; ports carry what the window gives them at their bandwidth, side by side; a message has
// arrived one latency after both its ports have carried the window's load. Local copies are not
// priced.
std::int64_t simulate(const ir::Schedule& schedule, const Topology& topology);

}  // namespace plan
