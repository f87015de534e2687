#include <chrono>
#include <iostream>

#include "libplan/base/error.h"
#include "libplan/schedule/plan_file.h"
#include "tools/cost_report.h"
#include "tools/inputs.h"
#include "tools/progress.h"
#include "tools/verbs.h"

namespace plan::tools {

int run_cost_verb(const CostArgs& args) {
  Progress progress("planning and pricing");
  CostReport report;
  if (args.plan.empty()) {
    const Request request = read_request(args.inputs);
    const auto start = std::chrono::steady_clock::now();
    const Resolved resolved = resolve(request);
    const ir::Schedule schedule = make_plan(request, resolved);
    const auto elapsed = std::chrono::steady_clock::now() - start;
    report = cost_report(request, resolved, schedule);
    report.planning_us = std::chrono::duration_cast<std::chrono::microseconds>(elapsed).count();
  } else {
    if (has_switch(args.inputs)) {
      throw Error(ErrorCode::Usage, "expected either a plan or the flags of a switch, found both");
    }
    const ir::Schedule schedule = read_plan(args.plan);
    if (schedule.programs.size() != schedule.ranks.size()) {
      throw Error(ErrorCode::BadInput,
                  "expected a whole plan, found the part of " +
                      std::to_string(schedule.programs.size()) + " of " +
                      std::to_string(schedule.ranks.size()) + " ranks",
                  args.plan);
    }
    const Request request = request_of_plan(schedule, args.plan);
    report = cost_report(request, resolve(request), schedule);
  }
  progress.done();
  std::cout << (args.json ? to_json(report) : to_table(report));
  return 0;
}

}  // namespace plan::tools
