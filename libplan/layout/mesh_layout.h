// strategy x model -> Layout for a device mesh: an entry with `mesh` and `placements`.
//
// `placements` is an object from names of tensors to a list with one placement for each mesh axis:
// "R", "S(dim)" or "SS(dim,split_factor)" (placements.h). A name may have "*" for any run of
// characters; an exact name counts first, then the pattern with the most other characters, then the
// one that sorts first. Dimensions are those of the logical tensor (Tensor::logical_shape): gate
// and up of a gated layer are one dimension of 2 * ffn rows.
//
// Example: {"mesh": [["dp", 4], ["tp", 2]], "placements": {"*": ["S(0)", "R"],
// "decoder.layers.*.mlp.linear_fc2.weight": ["S(0)", "S(1)"]}}
#pragma once

#include <vector>

#include "libplan/layout/layout.h"
#include "libplan/model/model.h"
#include "libplan/strategy/strategy.h"

namespace plan {

// All states of a tensor have its placements; a member has one storage for each tensor that it
// holds a part of, with the contiguous local tensor, and no vocabulary padding. The member at mesh
// position i is `strategy.device_of(i)`. With use_torch_fsdp2 the content is what FSDP2 stores,
// otherwise what distribute_tensor's local cut gives. Notices tell of rows of the mesh whose
// devices do not ascend. Error(BadInput) or Error(Unsupported) names the tensor, the mesh axis or
// the pattern.
Layout mesh_layout(const Model& model, const Strategy& strategy,
                   const std::vector<StateKind>& states);

}  // namespace plan
