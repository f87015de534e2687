#include "libplan/plan.h"

#include <string>

#include "libplan/base/digest.h"
#include "libplan/base/error.h"
#include "libplan/layout/megatron.h"
#include "libplan/layout/mesh_layout.h"

namespace plan {
namespace {

std::vector<StateKind> default_states() {
  std::vector<StateKind> states;
  for (const char* name : {"main_param", "exp_avg", "exp_avg_sq"}) {
    states.push_back(*builtin_state_kind(name));
  }
  return states;
}

void require_devices(const Layout& layout, const Topology& topology, const char* side) {
  for (const DeviceShards& device : layout.devices) {
    if (topology.has(device.device)) continue;
    throw Error(ErrorCode::BadInput,
                std::string("the ") + side + " needs device " +
                    std::to_string(device.device.value) + " (of " +
                    std::to_string(layout.devices.size()) + "), the topology has " +
                    std::to_string(topology.num_devices()) +
                    " devices; give a topology that has it, or other \"ranks\"",
                "topology");
  }
}

}  // namespace

Layout resolve_layout(const Model& model, const SwitchSide& side, const PlanOptions& options) {
  PLAN_CHECK(side.strategy.has_value() != side.layout.has_value());
  if (side.layout) return *side.layout;
  const std::vector<StateKind> states = options.states.empty() ? default_states() : options.states;
  if (!side.strategy->mesh.empty()) return mesh_layout(model, *side.strategy, states);
  MegatronOptions ddp = options.ddp;
  ddp.version = options.model.megatron_version;
  return megatron_layout(model, *side.strategy, ddp, states);
}

Resolved resolve(const Request& request) {
  const Model model =
      parse_model(request.model, "the request's model", "", request.options.model).model;
  Resolved resolved;
  resolved.source = resolve_layout(model, request.source, request.options);
  resolved.target = resolve_layout(model, request.target, request.options);
  resolved.digests.model = sha256_hex(request.model);
  resolved.digests.source_layout = digest(resolved.source);
  resolved.digests.target_layout = digest(resolved.target);
  resolved.digests.topology = sha256_hex(to_json(request.topology));
  unify(resolved.source, resolved.target);
  return resolved;
}

ir::Schedule make_plan(const Request& request) { return make_plan(request, resolve(request)); }

ir::Schedule make_plan(const Request& request, const Resolved& resolved) {
  require_devices(resolved.source, request.topology, "source");
  require_devices(resolved.target, request.topology, "target");
  const PlanOptions& options = request.options;

  const Demand demand = build_demand(resolved.source, resolved.target, request.topology);
  require_nothing_lost(demand, resolved.source, request.topology);
  const RoutedDemand routed =
      optimize(demand, request.topology, {options.algorithm, options.window_ops});
  ir::Schedule schedule = lower(demand, routed, resolved.source, resolved.target, request.topology,
                                {options.packing, options.alias, options.window_ops});

  schedule.request = to_json(request);
  schedule.digests = resolved.digests;
  schedule.algorithm = name_of(options.algorithm);
  return schedule;
}

}  // namespace plan
