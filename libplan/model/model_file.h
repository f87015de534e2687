// The explicit model file: every tensor with its global shape and how it is cut. For models that no
// rule covers. Format: schemas/model.schema.json; an example is the text that to_json writes.
//
// Shapes and axes in the file are logical: a gated fc1 is [2*ffn, hidden] with "tp": {"axis": 0,
// "blocks": 2}, which the reader makes [2, ffn, hidden]. Only memory_order counts canonical axes
// (the block axis split off), since memory may interleave blocks in any way.
//
// A record with "repeat": n stands for n layers: its name holds {i}, which becomes the global layer
// number, starting from "layer" (default 0). Neighbouring records with the same layer and repeat
// are expanded together, layer by layer, so that registration order is kept.
#pragma once

#include <string>
#include <vector>

#include "libplan/base/json_tree.h"
#include "libplan/model/model.h"

namespace plan {

struct ModelFile {
  Model model;
  // Kinds of state beyond the built-in ones, or built-in names with another dtype or place.
  std::vector<StateKind> state_kinds;
  friend bool operator==(const ModelFile&, const ModelFile&) = default;
};

// True for an object whose "format" is "libplan-model".
bool is_model_file(const JsonCursor& root);

// Error(BadInput) with the JSON pointer of the fault; unknown keys are refused.
ModelFile read_model_file(const JsonCursor& root);

// One record per tensor, defaults left out; read_model_file gives back an equal ModelFile. The same
// input always gives the same bytes.
std::string to_json(const ModelFile& file);

}  // namespace plan
