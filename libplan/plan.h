// The main path: Request -> Schedule.
//
// A Request is everything that decides a plan; it is embedded in the Schedule as canonical JSON, so
// that `verify` needs nothing else. README's table says which question each stage answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libplan/demand/demand.h"
#include "libplan/layout/layout.h"
#include "libplan/layout/megatron_chunk.h"
#include "libplan/model/builtin.h"
#include "libplan/optimize/optimize.h"
#include "libplan/schedule/ir.h"
#include "libplan/schedule/lower.h"
#include "libplan/strategy/strategy.h"
#include "libplan/topology/topology.h"

namespace plan {

// One side of a switch: an entry of a strategy list, or a layout that the runtime really has.
struct SwitchSide {
  std::optional<Strategy> strategy;  // exactly one of the two
  std::optional<Layout> layout;
};

struct PlanOptions {
  ModelOptions model;
  MegatronOptions ddp;            // its version is model.megatron_version
  std::vector<StateKind> states;  // empty: main_param, exp_avg, exp_avg_sq
  Algorithm algorithm = Algorithm::Balanced;
  std::int32_t window_ops = 256;
  Packing packing = Packing::Never;
  bool alias = true;
};

struct Request {
  std::string model;  // ModelInput::origin_json
  SwitchSide source;
  SwitchSide target;
  Topology topology;
  PlanOptions options;
};

// Compact canonical JSON: equal requests give equal bytes.
std::string to_json(const Request& request);

// Reads what to_json wrote; `source_name` is used in errors.
Request parse_request_json(std::string_view json, const std::string& source_name);

// The two layouts of a request, unified, and the digests of its inputs.
struct Resolved {
  Layout source;
  Layout target;
  ir::Digests digests;
};

Resolved resolve(const Request& request);

// The layout of one side alone.
Layout resolve_layout(const Model& model, const SwitchSide& side, const PlanOptions& options);

// Error(BadInput) if a layout uses a device that the topology lacks, Error(Infeasible) if state is
// lost.
ir::Schedule make_plan(const Request& request);
ir::Schedule make_plan(const Request& request, const Resolved& resolved);

}  // namespace plan
