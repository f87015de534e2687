// From command-line arguments to a Request.
#pragma once

#include "libplan/layout/layout.h"
#include "libplan/plan.h"
#include "tools/verbs.h"

namespace plan::tools {

PlanOptions read_options(const InputArgs& args, const std::vector<StateKind>& model_states);

std::vector<DeviceId> dead_devices(const InputArgs& args);

// The model alone; Error(Usage) if --model is missing.
ModelInput read_model_argument(const InputArgs& args);

// `selector` names an entry of the --strategies list.
Strategy read_strategy(const InputArgs& args, const std::string& selector);

// Everything that `plan` needs; Error(Usage) names the flag that is missing. Without --topology all
// devices of both sides stand in one node at the default prices.
Request read_request(const InputArgs& args);

// True if any flag that describes a switch was given.
bool has_switch(const InputArgs& args);

// The request that a plan embeds.
Request request_of_plan(const ir::Schedule& schedule, const std::string& path);

}  // namespace plan::tools
