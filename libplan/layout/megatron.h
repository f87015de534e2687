// strategy x model -> Layout under Megatron-Core's rules: TP, PP, VPP, CP, DP, EP, ETP, the
// distributed optimizer with Group ZeRO, or replicated optimizer states without it; or torch FSDP2
// (use_torch_fsdp2), which cuts the rows of every local parameter over the dp-cp group.
#pragma once

#include <vector>

#include "libplan/layout/layout.h"
#include "libplan/layout/megatron_chunk.h"
#include "libplan/model/model.h"
#include "libplan/strategy/rank_grid.h"
#include "libplan/strategy/strategy.h"

namespace plan {

// Everything that the ranks of one strategy share.
struct MegatronPlacement {
  RankGrid grid;
  CutSizes cuts;
  std::vector<std::vector<MegatronChunk>> stages;  // [pipeline rank][virtual stage]
};

// Error(BadInput) names the sizes that do not fit each other or the model.
MegatronPlacement place_megatron(const Model& model, const Strategy& strategy,
                                 const MegatronOptions& options);

// `states` are the kinds that move. Whatever they are, the layout also has the `param` state of
// tensors whose value the runtime cannot rebuild from a main copy: frozen parameters, persistent
// buffers, and float32 parameters (whose main copy is the parameter itself).
Layout megatron_layout(const Model& model, const Strategy& strategy, const MegatronOptions& options,
                       const std::vector<StateKind>& states);

}  // namespace plan
