#include "libplan/strategy/check.h"

#include <iostream>

#include "libplan/base/error.h"
#include "libplan/base/files.h"
#include "libplan/base/quantity.h"
#include "libplan/model/megatron_version.h"
#include "libplan/strategy/check_format.h"
#include "libplan/strategy/model_facts.h"
#include "tools/inputs.h"
#include "tools/progress.h"
#include "tools/verbs.h"

namespace plan::tools {
namespace {

std::vector<check::Selector> selectors(const CheckArgs& args) {
  std::vector<check::Selector> list;
  for (const auto& [option, value] :
       {std::pair{"--from", args.inputs.from}, std::pair{"--to", args.inputs.to},
        std::pair{"--at", args.at}}) {
    if (!value.empty()) list.push_back({option, value});
  }
  return list;
}

// What the switch would lose with the dead devices, as the planner says it.
std::optional<std::string> lost_state(const Model& model, const Strategy& source,
                                      const Strategy& target, const PlanOptions& options,
                                      const Topology& topology) {
  Layout before = resolve_layout(model, {source, std::nullopt}, options);
  Layout after = resolve_layout(model, {target, std::nullopt}, options);
  unify(before, after);
  try {
    require_nothing_lost(build_demand(before, after, topology), before, topology);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::Infeasible) throw;
    return error.message();
  }
  return std::nullopt;
}

std::int32_t devices_of(const Strategy& strategy) {
  std::int32_t last = strategy.world_size - 1;
  for (const DeviceId device : strategy.ranks) last = std::max(last, device.value);
  return last + 1;
}

}  // namespace

int run_check_verb(const CheckArgs& args) {
  const std::string list = args.strategies.empty() ? args.inputs.strategies : args.strategies;
  if (list.empty()) throw Error(ErrorCode::Usage, "a strategy list is required");
  const auto format = check::format_from_name(args.format);
  if (!format) {
    throw Error(
        ErrorCode::Usage,
        "--format: expected text, json, sarif, junit or github, found \"" + args.format + "\"");
  }
  if (!args.compat.empty() && args.compat != "elastic-megatron") {
    throw Error(ErrorCode::Usage,
                "--compat: expected elastic-megatron, found \"" + args.compat + "\"");
  }
  const ModelInput model = read_model_argument(args.inputs);
  const PlanOptions plan_options = read_options(args.inputs, model.state_kinds);

  check::Options options;
  if (!args.inputs.megatron_version.empty()) options.version = plan_options.model.megatron_version;
  if (!args.inputs.topology.empty()) options.topology = read_topology(args.inputs.topology);
  options.dead_ranks = dead_devices(args.inputs);
  options.selectors = selectors(args);
  if (!args.inputs.memory_limit.empty())
    options.memory_limit = parse_size_bytes(args.inputs.memory_limit);
  options.seq_length = args.seq_length;
  options.global_batch_size = args.global_batch_size;
  options.micro_batch_size = args.micro_batch_size;
  options.compat_elastic = !args.compat.empty();
  options.overlap_grad_reduce = plan_options.ddp.overlap_grad_reduce;
  options.ddp_bucket_size = plan_options.ddp.ddp_bucket_size;
  options.ddp_num_buckets = plan_options.ddp.ddp_num_buckets;
  options.ddp_pad_buckets_for_high_nccl_busbw =
      plan_options.ddp.ddp_pad_buckets_for_high_nccl_busbw;
  options.accumulate_allreduce_grads_in_fp32 = plan_options.ddp.accumulate_allreduce_grads_in_fp32;
  options.lost_state = [&](const Strategy& source, const Strategy& target) {
    const Topology machine = options.topology
                                 ? *options.topology
                                 : single_node(std::max(devices_of(source), devices_of(target)));
    return lost_state(model.model, source, target, plan_options,
                      with_dead(machine, options.dead_ranks));
  };

  Progress progress("checking");
  const std::vector<check::Diagnostic> findings =
      check::check(read_file(list), list,
                   check::model_facts(model, plan_options.model.transformer_impl), options);
  progress.done();
  std::cout << check::format_findings(findings, list, *format);
  return check::exit_status(findings, args.strict);
}

}  // namespace plan::tools
