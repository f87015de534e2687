#include "tools/inputs.h"

#include <algorithm>
#include <set>

#include "libplan/base/error.h"
#include "libplan/base/files.h"
#include "libplan/layout/layout_json.h"
#include "libplan/model/megatron_version.h"

namespace plan::tools {
namespace {

void require(const std::string& value, const char* flag) {
  if (value.empty()) throw Error(ErrorCode::Usage, std::string(flag) + " is required");
}

ModelOptions read_model_options(const InputArgs& args) {
  ModelOptions options;
  const auto version =
      megatron_version_from_name(args.megatron_version.empty() ? "newest" : args.megatron_version);
  if (!version) {
    throw Error(ErrorCode::Usage, "--megatron-version: expected 0.11, 0.13 or newest, found \"" +
                                      args.megatron_version + "\"");
  }
  options.megatron_version = *version;
  if (args.transformer_impl == "local") {
    options.transformer_impl = TransformerImpl::Local;
  } else if (args.transformer_impl != "transformer_engine") {
    throw Error(ErrorCode::Usage,
                "--transformer-impl: expected transformer_engine or local, found \"" +
                    args.transformer_impl + "\"");
  }
  options.make_vocab_size_divisible_by = args.make_vocab_size_divisible_by;
  options.mtp_num_layers = args.mtp_num_layers;
  return options;
}

std::vector<StateKind> read_states(const InputArgs& args,
                                   const std::vector<StateKind>& model_states) {
  std::vector<StateKind> states;
  for (const std::string& name : args.states) {
    const auto own = std::find_if(model_states.begin(), model_states.end(),
                                  [&](const StateKind& kind) { return kind.name == name; });
    std::optional<StateKind> kind = builtin_state_kind(name);
    if (own != model_states.end()) kind = *own;
    if (!kind) {
      throw Error(
          ErrorCode::Usage,
          "--states: expected main_param, exp_avg, exp_avg_sq, param or a kind that the model "
          "file declares, found \"" +
              name + "\"");
    }
    if (std::any_of(states.begin(), states.end(),
                    [&](const StateKind& s) { return s.name == name; })) {
      throw Error(ErrorCode::Usage, "--states: \"" + name + "\" is given twice");
    }
    states.push_back(*kind);
  }
  return states;
}

// Packing is needed where an executor cannot move strided bytes itself; the host executor can.
Packing read_packing(const InputArgs& args) {
  if (args.executor != "host" && args.executor != "mpi" && args.executor != "nccl") {
    throw Error(ErrorCode::Usage,
                "--executor: expected host, mpi or nccl, found \"" + args.executor + "\"");
  }
  if (args.pack == "always") return Packing::Always;
  if (args.pack == "never") return Packing::Never;
  if (args.pack == "auto") return args.executor == "host" ? Packing::Never : Packing::Always;
  throw Error(ErrorCode::Usage,
              "--pack: expected auto, always or never, found \"" + args.pack + "\"");
}

SwitchSide read_side(const InputArgs& args, const std::string& selector, const std::string& layout,
                     const char* selector_flag, const char* layout_flag) {
  SwitchSide side;
  if (selector.empty() == layout.empty()) {
    throw Error(ErrorCode::Usage, std::string("expected either ") + selector_flag + " or " +
                                      layout_flag + ", found " +
                                      (selector.empty() ? "neither" : "both"));
  }
  if (layout.empty()) {
    side.strategy = read_strategy(args, selector);
  } else {
    side.layout = parse_layout_json(read_file(layout), layout);
  }
  return side;
}

void add_devices(const SwitchSide& side, std::set<DeviceId>& devices) {
  if (side.layout) {
    for (const DeviceShards& device : side.layout->devices) devices.insert(device.device);
    return;
  }
  if (side.strategy->world_size > kMaxDevices) {
    throw Error(ErrorCode::Unsupported, "expected a world of at most " +
                                            std::to_string(kMaxDevices) + " ranks, found " +
                                            std::to_string(side.strategy->world_size));
  }
  for (std::int32_t rank = 0; rank < side.strategy->world_size; ++rank) {
    devices.insert(side.strategy->device_of(rank));
  }
}

// All devices that either side uses, in one node at the default prices.
Topology one_node(const SwitchSide& source, const SwitchSide& target) {
  std::set<DeviceId> devices;
  add_devices(source, devices);
  add_devices(target, devices);
  Topology topology = single_node(static_cast<std::int32_t>(devices.size()));
  Node& node = topology.nodes.front();
  node.devices.assign(devices.begin(), devices.end());
  for (std::size_t i = 0; i < node.nics.size(); ++i) node.nics[i].devices = {node.devices[i]};
  return topology;
}

Topology read_topology_argument(const InputArgs& args, const SwitchSide& source,
                                const SwitchSide& target) {
  Topology topology =
      args.topology.empty() ? one_node(source, target) : read_topology(args.topology);
  std::vector<DeviceId> dead = dead_devices(args);
  return dead.empty() ? topology : with_dead(std::move(topology), std::move(dead));
}

}  // namespace

std::vector<DeviceId> dead_devices(const InputArgs& args) {
  std::vector<DeviceId> dead;
  for (const std::int32_t rank : args.dead_ranks) dead.emplace_back(rank);
  return dead;
}

PlanOptions read_options(const InputArgs& args, const std::vector<StateKind>& model_states) {
  PlanOptions options;
  options.model = read_model_options(args);
  options.ddp.overlap_grad_reduce = args.overlap_grad_reduce;
  options.ddp.ddp_bucket_size = args.ddp_bucket_size;
  options.ddp.ddp_num_buckets = args.ddp_num_buckets;
  options.ddp.ddp_pad_buckets_for_high_nccl_busbw = args.ddp_pad_buckets_for_high_nccl_busbw;
  options.ddp.accumulate_allreduce_grads_in_fp32 = args.accumulate_allreduce_grads_in_fp32;
  options.states = read_states(args, model_states);
  options.algorithm = algorithm_from_name(args.algorithm);
  options.window_ops = args.window_ops;
  options.packing = read_packing(args);
  return options;
}

ModelInput read_model_argument(const InputArgs& args) {
  require(args.model, "--model");
  return read_model(args.model, read_model_options(args));
}

Strategy read_strategy(const InputArgs& args, const std::string& selector) {
  require(args.strategies, "--strategies");
  return find_strategy(parse_strategy_list(read_file(args.strategies), args.strategies), selector);
}

Request read_request(const InputArgs& args) {
  const ModelInput model = read_model_argument(args);
  Request request;
  request.model = model.origin_json;
  request.source = read_side(args, args.from, args.source_layout, "--from", "--source-layout");
  request.target = read_side(args, args.to, args.target_layout, "--to", "--target-layout");
  request.topology = read_topology_argument(args, request.source, request.target);
  request.options = read_options(args, model.state_kinds);
  return request;
}

bool has_switch(const InputArgs& args) {
  return !args.model.empty() || !args.strategies.empty() || !args.from.empty() ||
         !args.to.empty() || !args.source_layout.empty() || !args.target_layout.empty() ||
         !args.topology.empty();
}

Request request_of_plan(const ir::Schedule& schedule, const std::string& path) {
  return parse_request_json(schedule.request, path + " (request)");
}

}  // namespace plan::tools
