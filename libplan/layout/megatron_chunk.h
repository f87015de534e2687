// One model chunk of Megatron-Core as a rank builds it: its local parameters in registration order
// and the flat gradient/parameter buffers of DistributedDataParallel. Both are the same for all
// ranks of a pipeline position; only which box a rank holds depends on its coordinates.
//
// Rules: Megatron-LM core_v0.11.0, core_v0.13.0 and 0.20.0 (d98e8a64), param_and_grad_buffer.py and
// distrib_optimizer.py; read in shared terms in the README's "Layout rules".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libplan/base/box.h"
#include "libplan/layout/layout.h"
#include "libplan/model/model.h"
#include "libplan/model/transformer.h"
#include "libplan/strategy/strategy.h"

namespace plan {

// Options outside the strategy list that decide a layout, under Megatron's names. An entry of the
// list that sets one of them wins.
struct MegatronOptions {
  MegatronVersion version = MegatronVersion::V020;
  bool overlap_grad_reduce = false;
  std::optional<std::int64_t> ddp_bucket_size;
  std::optional<std::int32_t> ddp_num_buckets;
  bool ddp_pad_buckets_for_high_nccl_busbw = false;
  bool accumulate_allreduce_grads_in_fp32 = true;
};

MegatronOptions with_entry(MegatronOptions options, const Strategy& strategy);

// How many ways each group cuts.
struct CutSizes {
  std::int32_t tp = 1;
  std::int32_t etp = 1;
  std::int32_t ep = 1;
  std::int32_t dense_shards = 1;   // ranks of one optimizer instance, dense buffers
  std::int32_t expert_shards = 1;  // the same for expert buffers
};

struct LocalParam {
  TensorId tensor;
  std::string name;  // as registered, layer and expert numbers local
  std::int32_t expert =
      -1;        // local expert; -1: not an expert, or all local experts in one parameter
  Dims extents;  // canonical and local, vocabulary padded; an expert axis has its own extent
  Dims registered_shape;  // as the runtime sees it
  std::int64_t numel = 0;
  Dtype dtype = Dtype::BFloat16;
  bool trainable = true;
  bool buffer = false;            // persistent buffer
  bool expert_parallel = false;   // reduced over expert data parallel: lives in the expert buffers
  bool shared_embedding = false;  // gets a bucket of its own
  bool tied_copy = false;         // the last stage's copy of a tied embedding
};

struct FlatParam {
  std::int32_t param = 0;  // index into MegatronChunk::params
  Interval range;          // in the buffer, in elements
  std::int32_t bucket = 0;
};

struct Bucket {
  Interval range;
  std::int64_t numel_unpadded = 0;
};

struct FlatBuffer {
  bool expert = false;
  Dtype param_dtype = Dtype::BFloat16;
  Dtype grad_dtype = Dtype::Float32;
  std::int32_t shards =
      1;  // ranks over which each bucket is cut; 1 without the distributed optimizer
  std::int64_t numel = 0;
  std::int64_t numel_unpadded = 0;
  std::vector<FlatParam> params;  // buffer order: reverse registration order
  std::vector<Bucket> buckets;
};

// The part of one parameter whose optimizer state a rank owns.
struct OwnedRange {
  std::int32_t param = 0;   // index into FlatBuffer::params
  std::int32_t bucket = 0;  // in which the part lies
  Interval in_buffer;       // in elements
  Interval in_param;        // in the flattened local parameter
};

struct MegatronChunk {
  std::int32_t stage = 0;  // pipeline rank
  std::int32_t chunk = 0;  // virtual stage
  std::int32_t first_layer = 0;
  std::int32_t num_layers = 0;
  std::vector<LocalParam> params;
  std::vector<FlatBuffer> buffers;
};

// Local parameters of the chunk. Error(BadInput) names the tensor, the axis and the sizes where a
// cut is not even.
std::vector<LocalParam> local_params(const Model& model, const CutSizes& cuts,
                                     MegatronVersion version, bool is_first, bool is_last,
                                     std::int32_t first_layer, std::int32_t num_layers);

// `bucket_size`: nullopt for one bucket per buffer. `distributed`: false for the plain optimizer,
// which pads nothing.
std::vector<FlatBuffer> flat_buffers(const std::vector<LocalParam>& params, const CutSizes& cuts,
                                     const MegatronOptions& options,
                                     std::optional<std::int64_t> bucket_size, bool distributed);

// What rank `index` of an optimizer instance owns, in buffer order: of each bucket the index-th of
// `shards` equal parts, whatever parameters lie there. `index` is in [0, shards).
// Error(Unsupported) if parts of one parameter lie in two buckets, which Megatron-Core refuses
// (0.11 lays buffers out like that, see flat_buffers.cc).
std::vector<OwnedRange> owned_ranges(const MegatronChunk& chunk, const FlatBuffer& buffer,
                                     std::int32_t index);

}  // namespace plan
