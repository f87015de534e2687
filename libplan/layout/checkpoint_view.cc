#include "libplan/layout/checkpoint_view.h"

#include "libplan/base/checked.h"
#include "libplan/base/error.h"

namespace plan {
namespace {

constexpr std::string_view kLayers = "decoder.layers.";
constexpr std::string_view kExperts = ".experts.experts.";

// A shard that is built axis by axis.
class ShardAxes {
 public:
  void prepend(std::int64_t length, std::int64_t offset) {
    shard_.global_shape.push_back(length);
    shard_.global_offset.push_back(offset);
    shard_.fragmentation.push_back(length);
    ++shard_.prepended_axes;
  }

  // Piece `index` of `pieces` equal ones.
  void cut(std::int64_t local, std::int64_t pieces, std::int64_t index) {
    shard_.local_shape.push_back(local);
    shard_.global_shape.push_back(checked_mul(local, pieces));
    shard_.global_offset.push_back(checked_mul(local, index));
    shard_.fragmentation.push_back(pieces);
  }

  CheckpointShard take() { return std::move(shard_); }

 private:
  CheckpointShard shard_;
};

class View {
 public:
  View(const Model& model, const LocalParam& param, const CutSizes& cuts, const GridCoords& coords,
       const CheckpointOptions& options)
      : model_(model),
        tensor_(model.tensors[static_cast<std::size_t>(param.tensor.value)]),
        param_(param),
        cuts_(cuts),
        coords_(coords),
        options_(options),
        layer_axis_(tensor_.stage == StageRole::Layer && model.homogeneous_layers &&
                    !options.non_homogeneous_layers && !options.singleton_local_shards),
        expert_axis_(tensor_.expert_axis >= 0 && !tensor_.experts_fused &&
                     !options.singleton_local_shards) {}

  std::vector<CheckpointShard> run() const {
    std::vector<CheckpointShard> shards;
    const std::int64_t blocks = tensor_.block_axis >= 0 ? param_.extents[tensor_.block_axis] : 1;
    for (std::int64_t block = 0; block < blocks; ++block) shards.push_back(piece(block, blocks));
    return shards;
  }

 private:
  std::int64_t global_expert() const {
    return std::int64_t{coords_.ep} * (model_.num_experts / cuts_.ep) + param_.expert;
  }

  CheckpointShard piece(std::int64_t block, std::int64_t blocks) const {
    const bool apart = options_.singleton_local_shards;  // each block is a tensor of its own
    ShardAxes axes;
    if (layer_axis_) axes.prepend(model_.num_layers, tensor_.layer);
    if (expert_axis_) axes.prepend(model_.num_experts, global_expert());
    for (int axis = 0; axis < tensor_.shape.count; ++axis) {
      if (axis == tensor_.block_axis) continue;
      const std::int64_t local = param_.extents[axis];
      if (axis == tensor_.expert_axis) {
        if (tensor_.experts_fused) axes.cut(local, cuts_.ep, coords_.ep);
      } else if (axis == tensor_.tp_axis) {
        const bool expert = tensor_.expert_axis >= 0;
        const std::int64_t ways = expert ? cuts_.etp : cuts_.tp;
        const std::int64_t index = expert ? coords_.etp : coords_.tp;
        axes.cut(local, apart ? ways : ways * blocks, apart ? index : block * ways + index);
      } else {
        axes.cut(local, 1, 0);
      }
    }
    CheckpointShard shard = axes.take();
    shard.key = key();
    if (apart && blocks > 1) shard.key += block == 0 ? "_w" : "_v";
    shard.replica_id = replica_id();
    return shard;
  }

  std::string key() const {
    std::string key = tensor_.name;
    if (tensor_.stage == StageRole::Layer && key.starts_with(kLayers)) {
      const std::size_t end = key.find('.', kLayers.size());
      // TransformerEngine saves under the names that it registers, the local spec under these too.
      const bool registered = options_.impl == TransformerImpl::TransformerEngine &&
                              tensor_.expert_axis < 0 && !tensor_.local_name.empty();
      const std::string below = registered ? tensor_.local_name : key.substr(end + 1);
      key = layer_axis_ ? std::string(kLayers) + below : key.substr(0, end + 1) + below;
    }
    if (tensor_.expert_axis >= 0 && options_.singleton_local_shards) {
      const std::size_t at = key.find(kExperts);
      if (at != std::string::npos) {
        key.insert(at + kExperts.size(), std::to_string(global_expert()) + ".");
      }
    }
    return key;
  }

  std::array<std::int32_t, 3> replica_id() const {
    const bool expert = tensor_.expert_axis >= 0;
    const std::int32_t tensor_rank = expert ? coords_.etp : coords_.tp;
    return {param_.tied_copy ? 1 : 0, tensor_.tp_axis >= 0 ? 0 : tensor_rank,
            expert ? coords_.edp : coords_.dp_cp};
  }

  const Model& model_;
  const Tensor& tensor_;
  const LocalParam& param_;
  const CutSizes& cuts_;
  const GridCoords& coords_;
  const CheckpointOptions& options_;
  bool layer_axis_;
  bool expert_axis_;
};

// Position of the tensor-parallel axis in the registered shape.
std::int32_t registered_tp_axis(const Tensor& tensor) {
  if (tensor.experts_fused) {
    // weight1 is [hidden, experts * ffn], weight2 is [experts * ffn, hidden].
    return tensor.memory_order.back() == tensor.tp_axis ? 1 : 0;
  }
  std::int32_t dropped = 0;
  for (const int axis : {tensor.expert_axis, tensor.block_axis}) {
    if (axis >= 0 && axis < tensor.tp_axis) ++dropped;
  }
  return tensor.tp_axis - dropped;
}

}  // namespace

std::vector<CheckpointShard> checkpoint_shards(const Model& model, const LocalParam& param,
                                               const CutSizes& cuts, const GridCoords& coords,
                                               MegatronVersion version,
                                               const CheckpointOptions& options) {
  if (options.singleton_local_shards && version != MegatronVersion::V020) {
    throw Error(ErrorCode::Unsupported,
                "singleton_local_shards needs Megatron-Core 0.20, found an older version");
  }
  return View(model, param, cuts, coords, options).run();
}

ParamAttributes param_attributes(const Model& model, const LocalParam& param,
                                 MegatronVersion version) {
  const Tensor& tensor = model.tensors[static_cast<std::size_t>(param.tensor.value)];
  ParamAttributes attributes;
  const bool output = param.name.starts_with("output_layer.");
  // Set by the parallel linear layers, and by nothing else.
  if (output || tensor.experts_fused || param.name.find(".linear_") != std::string::npos) {
    attributes.allreduce = !param.expert_parallel;
  }
  if (tensor.tp_axis >= 0) {
    attributes.tensor_model_parallel = true;
    attributes.partition_dim = registered_tp_axis(tensor);
    const bool strided = version == MegatronVersion::V020 && tensor.block_axis >= 0;
    attributes.partition_stride =
        strided ? static_cast<std::int32_t>(tensor.shape[tensor.block_axis]) : 1;
  }
  attributes.is_embedding_or_output_parameter = tensor.vocab_axis >= 0;
  attributes.shared_embedding = param.shared_embedding;
  attributes.shared = param.tied_copy;
  return attributes;
}

}  // namespace plan
