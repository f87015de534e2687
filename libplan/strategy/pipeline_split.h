// Which decoder layers each pipeline position holds.
//
// Position of chunk v of stage s is v*P + s: chunk v of all stages comes before chunk v+1. Example:
// 8 layers, P = 2, V = 2: stage 0 holds layers 0-1 and 4-5, stage 1 layers 2-3 and 6-7.
//
// Source: Megatron-LM's transformer_block.py and transformer_layer.py, with the versions' quirks.
#pragma once

#include <cstdint>
#include <vector>

#include "libplan/model/megatron_version.h"
#include "libplan/strategy/strategy.h"

namespace plan {

// Most positions that are split; a pipeline needs a device for each of its stages.
inline constexpr std::int64_t kMaxPipelinePositions = std::int64_t{1} << 20;

struct StageSpan {
  std::int32_t position = 0;
  std::int32_t stage = 0;  // pipeline rank
  std::int32_t chunk = 0;  // virtual stage
  std::int32_t first_layer = 0;
  std::int32_t num_layers = 0;  // may be 0
  friend bool operator==(const StageSpan&, const StageSpan&) = default;
};

// Virtual stages of each pipeline stage: what the layout implies, else the given size, else 1.
// Error(BadInput) if P does not divide the layout's positions.
std::int32_t virtual_stages(const Strategy& strategy);

// All positions, ascending. Error(BadInput) where the version refuses the split, and where it
// would build too few or too many layers in silence. One silent fault is reproduced rather than
// refused, since running jobs have it: 0.11 and 0.13 with virtual stages and only the last stage
// given start every stage but the first too early (strategy rule S309).
std::vector<StageSpan> pipeline_split(const Strategy& strategy, std::int32_t num_layers,
                                      MegatronVersion version);

}  // namespace plan
