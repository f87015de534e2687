#include "tests/path/switch_check.h"

#include <sstream>

#include "libplan/base/error.h"
#include "libplan/cost/bounds.h"
#include "libplan/cost/estimate.h"
#include "libplan/execute/host/oracle.h"
#include "libplan/schedule/canonical.h"
#include "libplan/schedule/flatbuffers_codec.h"
#include "libplan/schedule/json_codec.h"
#include "libplan/schedule/validate.h"
#include "libplan/verify/verify.h"

namespace plan::test {
namespace {

std::string fault_of_codecs(const ir::Schedule& schedule) {
  std::ostringstream json;
  write_json(schedule, json);
  if (read_json(json.str(), "plan") != schedule) return "the JSON form does not round trip";
  if (read_flatbuffers(write_flatbuffers(schedule)) != schedule) {
    return "the binary form does not round trip";
  }
  if (to_json(parse_request_json(schedule.request, "request")) != schedule.request) {
    return "the request does not round trip";
  }
  return {};
}

// One-hop algorithms send nothing twice, so they move exactly what any schedule must move.
std::string fault_of_cost(const Request& request, const Resolved& resolved,
                          const ir::Schedule& schedule) {
  const Estimate cost = estimate(schedule, request.topology);
  const Demand demand = build_demand(resolved.source, resolved.target, request.topology);
  const Bounds bound = bounds(demand, resolved.source, resolved.target, request.topology);
  if (cost.total_bytes != bound.received_bytes) {
    return "moves " + std::to_string(cost.total_bytes) + " bytes, needed are " +
           std::to_string(bound.received_bytes);
  }
  if (cost.inter_node_bytes < bound.inter_node_bytes)
    return "crosses nodes with less than the least";
  if (cost.makespan_ns < bound.makespan_ns) {
    return "simulated makespan " + std::to_string(cost.makespan_ns) + " ns is below the bound " +
           std::to_string(bound.makespan_ns);
  }
  return {};
}

}  // namespace

Request make_request(const std::string& model, const Strategy& from, const Strategy& to,
                     const std::string& topology, const PlanOptions& options) {
  Request request;
  request.model = read_model(model, options.model).origin_json;
  request.source.strategy = from;
  request.target.strategy = to;
  request.topology = read_topology(topology);
  request.options = options;
  return request;
}

std::string fault_of_switch(const Request& request, bool replay) {
  const Resolved resolved = resolve(request);
  const ir::Schedule schedule = make_plan(request, resolved);
  validate(schedule);
  verify::Options options;
  options.expected_digests = resolved.digests;
  const verify::Report report = verify::verify(schedule, resolved.source, resolved.target, options);
  if (!report.ok()) return to_string(report.findings.front());
  if (!report.complete) return "the checker saw only a part of the plan";
  if (std::string fault = fault_of_codecs(schedule); !fault.empty()) return fault;
  if (std::string fault = fault_of_cost(request, resolved, schedule); !fault.empty()) return fault;
  if (!replay) return {};
  const CheckedReplay checked = replay_checked(schedule);
  if (!checked.ok()) return to_string(checked.targets) + to_string(checked.sources);
  if (checked.targets.elements == 0) return "the replay compared nothing";
  return {};
}

}  // namespace plan::test
