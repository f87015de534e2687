// From a local parameter to the boxes of logical tensors that one rank holds of it.
#pragma once

#include <cstdint>
#include <vector>

#include "libplan/base/box.h"
#include "libplan/layout/layout.h"
#include "libplan/layout/megatron_chunk.h"
#include "libplan/model/model.h"

namespace plan {

// A contiguous part of a rank's flattened local parameter that is one box of one tensor. axis_order
// lists the canonical axes as they lie in memory, outermost first.
struct LocalPiece {
  TensorId tensor;
  Box box;                      // global
  std::int64_t flat_begin = 0;  // in the flattened local parameter, in elements
  std::vector<int> axis_order;
};

struct LocalCoords {
  std::int32_t tp = 0;
  std::int32_t etp = 0;
  std::int32_t ep = 0;
  std::int32_t experts_per_rank = 0;
};

// One piece, or two where the rank's vocabulary rows reach into the padding (`padding_tensor`).
std::vector<LocalPiece> pieces_of_param(const Model& model, const LocalParam& param,
                                        TensorId padding_tensor, const LocalCoords& coords);

// Appends the shards of the flat range of the local parameter, which is stored from `offset_elems`
// of a storage on.
void append_shards(const std::vector<LocalPiece>& pieces, Interval flat_range,
                   std::int64_t offset_elems, std::vector<Shard>& shards);

}  // namespace plan
