// A Strategy is the wish: parallel sizes under Megatron's key names. Reading checks form (types,
// known keys, ranges); whether the sizes fit the model and the world is checked where they are
// resolved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libplan/base/ids.h"

namespace plan {

struct MeshAxis {
  std::string name;
  std::int32_t size = 1;
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

struct Strategy {
  std::string name;  // may be empty
  std::int32_t world_size = 1;
  std::int32_t tensor_model_parallel_size = 1;
  std::int32_t pipeline_model_parallel_size = 1;
  std::int32_t context_parallel_size = 1;
  std::int32_t expert_model_parallel_size = 1;
  std::optional<std::int32_t> expert_tensor_parallel_size;           // default: tensor size
  std::int32_t num_distributed_optimizer_instances = 1;              // Group ZeRO
  std::optional<std::int32_t> virtual_pipeline_model_parallel_size;  // 1 means unset
  std::optional<std::int32_t> num_layers_in_first_pipeline_stage;
  std::optional<std::int32_t> num_layers_in_last_pipeline_stage;
  bool account_for_embedding_in_pipeline_split = false;
  bool account_for_loss_in_pipeline_split = false;
  std::optional<std::vector<std::string>>
      pipeline_model_parallel_layout;  // per position: "Ettt", "ttL"
  std::optional<bool> sequence_parallel;
  bool use_distributed_optimizer = true;
  std::string order = "tp-cp-ep-dp-pp";
  std::vector<DeviceId> ranks;  // device of each rank; empty: 0, 1, 2, ...
  bool use_torch_fsdp2 = false;
  bool use_megatron_fsdp = false;
  std::vector<MeshAxis> mesh;   // last axis fastest; then `placements_json` holds the placements
  std::string placements_json;  // canonical JSON of `placements`
  // Layout options of Megatron's DDP; absent: the command line's.
  std::optional<bool> overlap_grad_reduce;
  std::optional<std::int64_t> ddp_bucket_size;
  std::optional<std::int32_t> ddp_num_buckets;
  std::optional<bool> ddp_pad_buckets_for_high_nccl_busbw;
  std::optional<bool> accumulate_allreduce_grads_in_fp32;
  std::optional<bool> use_precision_aware_optimizer;

  std::int32_t etp() const {
    return expert_tensor_parallel_size.value_or(tensor_model_parallel_size);
  }
  std::int32_t vpp() const { return virtual_pipeline_model_parallel_size.value_or(1); }
  DeviceId device_of(std::int32_t rank) const {
    return ranks.empty() ? DeviceId(rank) : ranks[static_cast<std::size_t>(rank)];
  }
  friend bool operator==(const Strategy&, const Strategy&) = default;
};

// Reads a strategy list; errors carry file, JSON pointer, line and column, required and found.
std::vector<Strategy> parse_strategy_list(std::string_view json, const std::string& source_name);

// `selector` is a name, or an index 0..N-1. Error(BadInput) lists what there is, and the nearest
// name.
const Strategy& find_strategy(const std::vector<Strategy>& list, const std::string& selector);

// One canonical JSON object with the keys above, defaults left out; parse_strategy_list reads
// `[it]` back.
std::string to_json(const Strategy& strategy);

}  // namespace plan
