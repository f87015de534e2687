// The least time in which copies of byte classes can leave vertices of limited bandwidth.
#pragma once

#include <cstdint>
#include <vector>

namespace plan {

// `bytes` lie on each of `holders` and must reach each of `needers` (vertex numbers, disjoint).
struct FlowClass {
  std::vector<std::int32_t> holders;
  std::vector<std::int32_t> needers;
  std::int64_t bytes = 0;
};

// A vertex sends at most bytes_per_second[v]. Each class must leave its holders at least once, and
// one copy per needer must leave a holder or, with `relays`, a needer. Returns the least time in
// ns, rounded up. Newton steps on the minimum cuts of a flow network (source -> class -> vertex ->
// sink with capacity time x bandwidth); Boost.Graph's push_relabel_max_flow with int64 capacities.
std::int64_t least_exit_ns(const std::vector<FlowClass>& classes,
                           const std::vector<std::int64_t>& bytes_per_second, bool relays);

// The busiest vertex's time to receive, in ns, rounded up.
std::int64_t least_entry_ns(const std::vector<FlowClass>& classes,
                            const std::vector<std::int64_t>& bytes_per_second);

// Time in ns to move `bytes` at `bytes_per_second`, rounded up; Error(BadInput) beyond int64.
std::int64_t transfer_ns(std::int64_t bytes, std::int64_t bytes_per_second);

}  // namespace plan
