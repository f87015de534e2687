// Megatron's model arguments as a JSON object: {"num_layers": 32, "hidden_size": 4096, "swiglu":
// true, ...}. Names are the arguments' without dashes, or TransformerConfig's fields; what is left
// out has the default of Megatron's training script.
#pragma once

#include "libplan/base/json_tree.h"
#include "libplan/model/transformer.h"

namespace plan {

// True for an object with `num_layers` or `hidden_size`.
bool is_megatron_arguments(const JsonCursor& root);

// Error(BadInput) names an unknown argument and the nearest known one.
TransformerConfig read_megatron_arguments(const JsonCursor& root);

}  // namespace plan
