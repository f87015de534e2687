// Replays a Schedule in this process: one thread per rank, storages in a HostMemory.
//
// The reference executor: it does what ir.h says and nothing else. Windows run in order on each
// rank, so a window starts after all that it depends on. Bytes of a message go once from the
// sender's slices to the receiver's; there is no staging and no packing.
// Precondition: the schedule has passed schedule/validate (structure and bounds); ranges, ids and
// offsets are not checked again here.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "libplan/execute/host/host_memory.h"
#include "libplan/schedule/ir.h"

namespace plan {

struct ReplayOptions {
  // Without any progress on any rank for this long the replay ends as deadlocked.
  double timeout_seconds = 60;
  // A message is copied in parts of this size, which the threads of both ends share. Smaller parts
  // miss memcpy's path for large blocks.
  std::int64_t part_bytes = std::int64_t{16} << 20;
  // Only windows in [first_window, end_window), so that a caller can act between steps.
  std::int32_t first_window = 0;
  std::int32_t end_window = std::numeric_limits<std::int32_t>::max();
  // Fault injection: this rank fails in place of its first exchange at or after fail_window, or
  // at its end if there is none.
  RankId fail_rank;
  std::int32_t fail_window = 0;
};

// Seconds of the rank that spent most on a phase; phases of different ranks overlap.
struct PhaseSeconds {
  double allocate = 0;  // allocating and freeing
  double copy = 0;      // local copies, fills and casts
  double exchange = 0;  // messages, waiting for peers included
};

struct ReplayReport {
  PhaseSeconds seconds;
  double total_seconds = 0;       // wall clock, from the first thread's start to the last one's end
  std::int64_t local_bytes = 0;   // written by copies and casts
  std::int64_t filled_bytes = 0;  // written by fills
  std::int64_t intra_node_bytes = 0;  // sent between ranks of one node
  std::int64_t inter_node_bytes = 0;
  std::int64_t messages = 0;
  std::vector<std::int64_t> peak_bytes;  // per rank; 0 for ranks without a program

  // Bytes written per second in 10^9; 0 if no time passed.
  double gigabytes_per_second() const;
};

// Needs a program for every rank that takes part in a message, and memory whose sources are live.
// Error(Executor), after all threads have ended, if a rank fails or the replay deadlocks: the
// message names rank and window, and for a deadlock the window, op, peer and bytes of every rank
// that waits. Sources that no window has freed are then as they were, unless an alias let the
// schedule write to them; HostMemory::roll_back drops the rest.
ReplayReport replay(const ir::Schedule& schedule, HostMemory& memory,
                    const ReplayOptions& options = {});

}  // namespace plan
