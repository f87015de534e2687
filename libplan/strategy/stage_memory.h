// How much training state one rank of each pipeline stage holds: the sizes of its dense and expert
// flat buffers, by closed arithmetic over the model's tensors.
//
// All ranks of a stage hold equally many elements, since TP, EP and ETP cut evenly.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libplan/model/model.h"
#include "libplan/strategy/rank_grid.h"
#include "libplan/strategy/strategy.h"

namespace plan {

// Layout options in effect for one entry.
struct BufferOptions {
  bool overlap_grad_reduce = false;
  std::optional<std::int64_t> ddp_bucket_size;
  std::optional<std::int32_t> ddp_num_buckets;
  bool pad_for_high_busbw = false;
  bool grads_in_fp32 = true;
};

// Elements of one rank of a stage, over all its chunks.
struct StageElements {
  std::int64_t dense_buffer = 0;   // padded
  std::int64_t expert_buffer = 0;  // padded
  std::int64_t parameters = 0;     // without buffer padding
  friend bool operator==(const StageElements&, const StageElements&) = default;
};

// Bytes of one rank of a stage.
struct StageBytes {
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t total() const { return weights + gradients + optimizer; }
};

// One per pipeline stage; nothing if the strategy does not fit the model, or is none of Megatron's
// optimizers (FSDP).
std::optional<std::vector<StageElements>> stage_elements(const Model& model,
                                                         const Strategy& strategy,
                                                         MegatronVersion version,
                                                         const BufferOptions& options);
std::optional<std::vector<StageBytes>> stage_bytes(const Model& model, const Strategy& strategy,
                                                   MegatronVersion version,
                                                   const BufferOptions& options);

}  // namespace plan
