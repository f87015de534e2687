#include "tools/memory_limit.h"

#include "libplan/base/checked.h"
#include "libplan/base/error.h"
#include "libplan/base/quantity.h"
#include "libplan/cost/estimate.h"

namespace plan::tools {

void require_memory_limit(const ir::Schedule& schedule, const InputArgs& args) {
  if (args.memory_limit.empty()) return;
  const std::int64_t limit = parse_size_bytes(args.memory_limit);
  const std::int64_t resident =
      args.resident_bytes.empty() ? 0 : parse_size_bytes(args.resident_bytes);
  const std::vector<std::int64_t> peaks = peak_bytes(schedule);
  std::size_t fullest = 0;
  for (std::size_t i = 0; i < peaks.size(); ++i) {
    if (peaks[i] > peaks[fullest]) fullest = i;
  }
  const std::int64_t needed = peaks.empty() ? 0 : checked_add(peaks[fullest], resident);
  if (needed <= limit) return;
  throw Error(ErrorCode::Infeasible,
              "--memory-limit: the fullest rank needs " + std::to_string(needed) + " bytes (" +
                  bytes_text(needed) + "), the limit is " + std::to_string(limit) +
                  "; the least limit that this planner meets is " + std::to_string(needed),
              "worker " + std::to_string(schedule.ranks[fullest].worker.value));
}

}  // namespace plan::tools
