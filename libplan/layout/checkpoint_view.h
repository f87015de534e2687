// What Megatron-Core's distributed checkpoint says about a local parameter: under which key which
// piece of which global tensor it is saved (sharded_state_dict), and the attributes that Megatron
// sets on the parameter. This is how a runtime's own layout is compared with the rules.
//
// Example: gated fc1 of layer 5 of 8, hidden 64, ffn 160, tp rank 1 of 2: two pieces of key
// decoder.layers.mlp.linear_fc1.weight, global shape [8, 320, 64], local shape [80, 64], offsets
// [5, 80, 0] (gate) and [5, 240, 0] (up), fragmentation [8, 4, 1], one prepended axis.
//
// Sources as in megatron_chunk.h; the local spec is checked against dumps of the real code, the
// TransformerEngine spec is read from the source.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libplan/base/box.h"
#include "libplan/layout/megatron_chunk.h"
#include "libplan/model/model.h"
#include "libplan/model/transformer.h"
#include "libplan/strategy/rank_grid.h"

namespace plan {

// The metadata that sharded_state_dict is given, under Megatron's names, and the layer spec.
struct CheckpointOptions {
  TransformerImpl impl = TransformerImpl::Local;
  // Keys keep the global layer number and there is no layer axis. Implied by models whose layers
  // differ, and by singleton_local_shards.
  bool non_homogeneous_layers = false;
  // No expert axis either, and the halves of a gated fc1 are tensors of their own, with "_w" and
  // "_v" behind their keys. 0.20 only.
  bool singleton_local_shards = false;
};

// All shapes in elements. Dimensions of the global ones: the prepended axes, then the local
// shape's.
struct CheckpointShard {
  std::string key;
  Dims local_shape;  // without the prepended axes, which are 1 long
  Dims global_shape;
  Dims global_offset;
  Dims fragmentation;  // into how many equal pieces each axis is cut
  std::int32_t prepended_axes = 0;
  // (copy of a tied tensor, tensor-parallel rank of a replicated one, data-parallel rank); the
  // piece with all zeros is the one that is saved.
  std::array<std::int32_t, 3> replica_id{};
  friend bool operator==(const CheckpointShard&, const CheckpointShard&) = default;
};

// The pieces of a local parameter on the rank with these coordinates, in the order in which they
// lie in memory. Error(Unsupported) for singleton_local_shards before 0.20.
std::vector<CheckpointShard> checkpoint_shards(const Model& model, const LocalParam& param,
                                               const CutSizes& cuts, const GridCoords& coords,
                                               MegatronVersion version,
                                               const CheckpointOptions& options);

// Attributes of the parameter object, absent or false where Megatron sets none.
struct ParamAttributes {
  std::optional<bool> allreduce;  // false: reduced over expert data parallel
  bool tensor_model_parallel = false;
  std::int32_t partition_dim = -1;  // of the registered shape; with tensor_model_parallel
  std::int32_t partition_stride = 1;
  bool is_embedding_or_output_parameter = false;
  bool shared_embedding = false;
  bool shared = false;  // the output layer that repeats the embedding's values
  friend bool operator==(const ParamAttributes&, const ParamAttributes&) = default;
};

ParamAttributes param_attributes(const Model& model, const LocalParam& param,
                                 MegatronVersion version);

}  // namespace plan
