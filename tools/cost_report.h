// The cost of a schedule beside its bounds, as JSON with the keys that scripts depend on and as a
// table for people.
#pragma once

#include <cstdint>
#include <string>

#include "libplan/cost/bounds.h"
#include "libplan/cost/estimate.h"
#include "libplan/plan.h"

namespace plan::tools {

struct CostReport {
  Estimate estimate;
  Bounds bounds;
  std::int64_t planning_us = 0;  // request parsed to Schedule in memory; 0 for a plan from a file
};

CostReport cost_report(const Request& request, const Resolved& resolved,
                       const ir::Schedule& schedule);

std::string to_json(const CostReport& report);
std::string to_table(const CostReport& report);

}  // namespace plan::tools
