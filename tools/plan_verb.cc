#include <algorithm>
#include <iostream>

#include "libplan/base/error.h"
#include "libplan/base/quantity.h"
#include "libplan/cost/estimate.h"
#include "libplan/schedule/plan_file.h"
#include "tools/inputs.h"
#include "tools/memory_limit.h"
#include "tools/progress.h"
#include "tools/verbs.h"

namespace plan::tools {
namespace {

// The rank of the schedule that runs on the given worker.
RankId rank_of_worker(const ir::Schedule& schedule, std::int32_t worker) {
  for (const ir::RankEntry& entry : schedule.ranks) {
    if (entry.worker.value == worker) return entry.rank;
  }
  throw Error(ErrorCode::BadInput, "--rank: expected one of the plan's " +
                                       std::to_string(schedule.ranks.size()) + " workers, found " +
                                       std::to_string(worker));
}

}  // namespace

int run_plan_verb(const PlanArgs& args) {
  const Request request = read_request(args.inputs);
  Progress progress("planning");
  ir::Schedule schedule = make_plan(request);
  require_memory_limit(schedule, args.inputs);
  if (args.rank) schedule = ir::part_of_rank(schedule, rank_of_worker(schedule, *args.rank));
  progress.done();
  write_plan(schedule, args.output);
  return 0;
}

}  // namespace plan::tools
