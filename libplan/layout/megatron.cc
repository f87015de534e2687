#include "libplan/layout/megatron.h"

#include <algorithm>
#include <utility>

#include "libplan/base/checked.h"
#include "libplan/base/error.h"
#include "libplan/layout/known_bugs.h"
#include "libplan/layout/local_box.h"
#include "libplan/layout/placements.h"
#include "libplan/layout/state_lanes.h"
#include "libplan/strategy/pipeline_split.h"

namespace plan {
namespace {

constexpr std::int64_t kLeastDefaultBucket = 40'000'000;  // elements
constexpr std::int64_t kDefaultBucketPerDataParallelRank = 1'000'000;

// Bucket size of one chunk, by training.py and distributed_data_parallel.py: buckets exist only to
// overlap the gradient reduction, on the first pipeline rank, and not in later virtual chunks.
std::optional<std::int64_t> bucket_size(const MegatronOptions& options, std::int32_t stage,
                                        std::int32_t chunk, std::int32_t data_parallel_ranks,
                                        std::int64_t params_on_rank) {
  if (!options.overlap_grad_reduce || stage > 0 || chunk > 0) return std::nullopt;
  if (options.ddp_num_buckets) return params_on_rank / *options.ddp_num_buckets;
  if (options.ddp_bucket_size) return options.ddp_bucket_size;
  return std::max(kLeastDefaultBucket,
                  checked_mul(kDefaultBucketPerDataParallelRank, data_parallel_ranks));
}

std::vector<std::vector<MegatronChunk>> make_stages(const Model& model, const Strategy& strategy,
                                                    const MegatronOptions& options,
                                                    const CutSizes& cuts,
                                                    std::int32_t data_parallel_ranks) {
  const std::vector<StageSpan> spans = pipeline_split(strategy, model.num_layers, options.version);
  std::vector<std::vector<MegatronChunk>> stages(
      static_cast<std::size_t>(strategy.pipeline_model_parallel_size));
  for (const StageSpan& span : spans) {
    MegatronChunk chunk;
    chunk.stage = span.stage;
    chunk.chunk = span.chunk;
    chunk.first_layer = span.first_layer;
    chunk.num_layers = span.num_layers;
    const bool is_last = static_cast<std::size_t>(span.position) + 1 == spans.size();
    chunk.params = local_params(model, cuts, options.version, span.position == 0, is_last,
                                span.first_layer, span.num_layers);
    stages[static_cast<std::size_t>(span.stage)].push_back(std::move(chunk));
  }
  for (std::vector<MegatronChunk>& chunks : stages) {
    std::sort(chunks.begin(), chunks.end(),
              [](const MegatronChunk& a, const MegatronChunk& b) { return a.chunk < b.chunk; });
    std::int64_t params_on_rank = 0;
    for (const MegatronChunk& chunk : chunks) {
      for (const LocalParam& param : chunk.params) {
        if (!param.buffer) params_on_rank = checked_add(params_on_rank, param.numel);
      }
    }
    if (strategy.use_torch_fsdp2) continue;  // no flat buffers
    for (MegatronChunk& chunk : chunks) {
      chunk.buffers = flat_buffers(
          chunk.params, cuts, options,
          bucket_size(options, chunk.stage, chunk.chunk, data_parallel_ranks, params_on_rank),
          strategy.use_distributed_optimizer);
    }
  }
  return stages;
}

// fully_shard runs over the dp-cp group, so all its ranks must hold the same parameters.
void require_fsdp2(const Model& model, const Strategy& strategy) {
  const auto refuse = [&](const std::string& required, const std::string& found) {
    throw Error(ErrorCode::BadInput, "use_torch_fsdp2 needs " + required + ", found " + found,
                strategy.name);
  };
  if (strategy.expert_model_parallel_size > 1) {
    refuse("expert_model_parallel_size 1", std::to_string(strategy.expert_model_parallel_size));
  }
  if (model.num_experts > 0 && strategy.etp() != strategy.tensor_model_parallel_size) {
    refuse("expert_tensor_parallel_size equal to tensor_model_parallel_size " +
               std::to_string(strategy.tensor_model_parallel_size),
           std::to_string(strategy.etp()));
  }
  if (strategy.num_distributed_optimizer_instances > 1) {
    refuse("num_distributed_optimizer_instances 1",
           std::to_string(strategy.num_distributed_optimizer_instances));
  }
}

// What the training script refuses, though the layout is clear.
std::vector<std::string> fsdp2_notices(const Model& model, const Strategy& strategy) {
  std::vector<std::string> notices;
  const std::string refuses = "Megatron-Core's training script refuses use_torch_fsdp2 with ";
  if (strategy.pipeline_model_parallel_size > 1) {
    notices.push_back(refuses + "pipeline_model_parallel_size " +
                      std::to_string(strategy.pipeline_model_parallel_size));
  }
  if (model.tied_embeddings) notices.push_back(refuses + "tied embeddings");
  return notices;
}

// What this rule covers of a strategy entry.
void require_megatron(const Model& model, const Strategy& strategy) {
  if (strategy.use_megatron_fsdp || !strategy.mesh.empty()) {
    throw Error(ErrorCode::Unsupported,
                "expected Megatron's distributed data parallel or torch FSDP2, found Megatron FSDP "
                "or a device mesh",
                strategy.name);
  }
  if (strategy.use_torch_fsdp2) require_fsdp2(model, strategy);
  if (strategy.num_distributed_optimizer_instances > 1 && !strategy.use_distributed_optimizer) {
    throw Error(ErrorCode::BadInput,
                "num_distributed_optimizer_instances " +
                    std::to_string(strategy.num_distributed_optimizer_instances) +
                    " needs use_distributed_optimizer, found false",
                strategy.name);
  }
}

class Builder {
 public:
  Builder(const Model& model, const Strategy& strategy, const MegatronPlacement& placement,
          const std::vector<StateKind>& states)
      : model_(model), strategy_(strategy), placement_(placement), lanes_(model, states) {
    layout_.states = lanes_.states();
    add_tensors();
  }

  Layout run() {
    for (std::int32_t rank = 0; rank < strategy_.world_size; ++rank) {
      DeviceShards device;
      device.device = strategy_.device_of(rank);
      const GridCoords coords = placement_.grid.coords(rank);
      for (const MegatronChunk& chunk : placement_.stages[static_cast<std::size_t>(coords.pp)]) {
        add_chunk(chunk, coords, device.storages);
      }
      layout_.devices.push_back(std::move(device));
    }
    std::sort(layout_.devices.begin(), layout_.devices.end(),
              [](const DeviceShards& a, const DeviceShards& b) { return a.device < b.device; });
    return std::move(layout_);
  }

 private:
  void add_tensors() {
    for (const Tensor& tensor : model_.tensors) {
      layout_.tensors.push_back({tensor.name, tensor.shape, tensor.block_axis, false});
    }
    for (std::size_t i = 0; i < model_.tensors.size(); ++i) {
      const Tensor& tensor = model_.tensors[i];
      padding_.push_back(TensorId());
      if (tensor.vocab_axis < 0) continue;
      const std::int64_t rows = tensor.shape[tensor.vocab_axis];
      const std::int64_t padded =
          ceil_to(rows, checked_mul(model_.make_vocab_size_divisible_by, placement_.cuts.tp));
      if (padded == rows) continue;
      Dims shape = tensor.shape;
      shape[tensor.vocab_axis] = padded - rows;
      padding_[i] = TensorId(static_cast<std::int32_t>(layout_.tensors.size()));
      layout_.tensors.push_back({tensor.name + ".padding", shape, tensor.block_axis, true});
    }
  }

  std::vector<LocalPiece> pieces(const LocalParam& param, const GridCoords& coords) const {
    return pieces_of_param(
        model_, param, padding_[static_cast<std::size_t>(param.tensor.value)],
        {coords.tp, coords.etp, coords.ep, model_.num_experts / placement_.cuts.ep});
  }

  void add_chunk(const MegatronChunk& chunk, const GridCoords& coords,
                 std::vector<Storage>& storages) {
    const std::string prefix = "chunk" + std::to_string(chunk.chunk) + "/";
    for (const FlatBuffer& buffer : chunk.buffers) {
      add_param_buffer(prefix, chunk, buffer, coords, storages);
      add_main_states(prefix, chunk, buffer, coords, storages);
    }
    for (const LocalParam& param : chunk.params) {
      if (strategy_.use_torch_fsdp2) {
        add_fsdp2_param(prefix, param, coords, storages);
      } else if (!param.trainable || param.buffer) {
        add_part(prefix, param, {0, param.numel}, lanes_.of_param(param.dtype, true), coords,
                 storages);
      }
    }
  }

  // A storage for a flat range of one parameter.
  void add_part(const std::string& prefix, const LocalParam& param, Interval range,
                const std::vector<Lane>& lanes, const GridCoords& coords,
                std::vector<Storage>& storages) const {
    std::vector<Shard> shards;
    append_shards(pieces(param, coords), range, 0, shards);
    lanes_.append_storages(prefix + param.name, lanes, range.length(), shards, storages);
  }

  // fully_shard cuts the rows of each tensor-parallel shard over the dp-cp group, frozen parameters
  // too, and the optimizer state follows; buffers stay whole. Ranks may be left without rows.
  void add_fsdp2_param(const std::string& prefix, const LocalParam& param, const GridCoords& coords,
                       std::vector<Storage>& storages) const {
    Interval range{0, param.numel};
    if (!param.buffer && param.numel > 0) {
      const Dims rows{param.registered_shape[0]};
      const std::int64_t row_elems = param.numel / rows[0];
      const LocalContent mine = fsdp2_content(rows, {placement_.grid.dp_cp_size()},
                                              {{PlacementKind::Shard, 0, 1, ""}}, {coords.dp_cp});
      if (mine.empty()) return;
      const Interval held = mine.runs.front().front();
      range = {held.begin * row_elems, held.end * row_elems};
    }
    add_part(prefix, param, range, lanes_.of_parameter(param.dtype, param.trainable, param.buffer),
             coords, storages);
  }

  void add_param_buffer(const std::string& prefix, const MegatronChunk& chunk,
                        const FlatBuffer& buffer, const GridCoords& coords,
                        std::vector<Storage>& storages) const {
    const std::vector<Lane> lanes =
        lanes_.of_param(buffer.param_dtype, buffer.param_dtype == Dtype::Float32);
    if (lanes.empty()) return;
    std::vector<Shard> shards;
    for (const FlatParam& flat : buffer.params) {
      const LocalParam& param = chunk.params[static_cast<std::size_t>(flat.param)];
      append_shards(pieces(param, coords), {0, param.numel}, flat.range.begin, shards);
    }
    const std::string key = prefix + "param_buffer." + (buffer.expert ? "expert." : "dense.") +
                            std::string(name_of(buffer.param_dtype));
    lanes_.append_storages(key, lanes, buffer.numel, shards, storages);
  }

  void add_main_states(const std::string& prefix, const MegatronChunk& chunk,
                       const FlatBuffer& buffer, const GridCoords& coords,
                       std::vector<Storage>& storages) const {
    const std::vector<Lane>& lanes = lanes_.of_main(buffer.param_dtype);
    if (lanes.empty()) return;
    const std::int32_t in_instance = buffer.expert ? coords.intra_edp : coords.intra_dp_cp;
    const std::int32_t index = strategy_.use_distributed_optimizer ? in_instance : 0;
    for (const OwnedRange& mine : owned_ranges(chunk, buffer, index)) {
      const FlatParam& flat = buffer.params[static_cast<std::size_t>(mine.param)];
      const LocalParam& param = chunk.params[static_cast<std::size_t>(flat.param)];
      add_part(prefix, param, mine.in_param, lanes, coords, storages);
    }
  }

  const Model& model_;
  const Strategy& strategy_;
  const MegatronPlacement& placement_;
  StateLanes lanes_;
  Layout layout_;
  std::vector<TensorId> padding_;  // of each model tensor; invalid: none
};

}  // namespace

MegatronPlacement place_megatron(const Model& model, const Strategy& strategy,
                                 const MegatronOptions& given) {
  const MegatronOptions options = with_entry(given, strategy);
  require_megatron(model, strategy);
  MegatronPlacement placement{RankGrid::make(strategy, options.version), {}, {}};
  placement.cuts.tp = strategy.tensor_model_parallel_size;
  placement.cuts.etp = strategy.etp();
  placement.cuts.ep = strategy.expert_model_parallel_size;
  placement.cuts.dense_shards = placement.grid.dense_shards();
  placement.cuts.expert_shards = placement.grid.expert_shards();
  placement.stages =
      make_stages(model, strategy, options, placement.cuts, placement.grid.dp_cp_size());
  return placement;
}

Layout megatron_layout(const Model& model, const Strategy& strategy, const MegatronOptions& options,
                       const std::vector<StateKind>& states) {
  const MegatronPlacement placement = place_megatron(model, strategy, options);
  Layout layout = Builder(model, strategy, placement, states).run();
  layout.notices = known_bugs(model, placement, options.version);
  if (strategy.use_torch_fsdp2) {
    for (std::string& notice : fsdp2_notices(model, strategy)) {
      layout.notices.push_back(std::move(notice));
    }
  }
  return layout;
}

}  // namespace plan
