// A Hugging Face config.json as a TransformerConfig.
//
// Known model types: deepseek_v2, deepseek_v3, gpt2, llama, mixtral, qwen2, qwen3, qwen3_moe. Keys
// that decide no shape (rope scaling, sliding windows, routing, dropout) are ignored; what would
// change the layout and is not modelled is refused by name. A dtype that the file does not give is
// bfloat16.
#pragma once

#include <cstdint>

#include "libplan/base/json_tree.h"
#include "libplan/model/transformer.h"

namespace plan {

struct HuggingFaceModel {
  TransformerConfig config;
  // num_nextn_predict_layers: multi-token prediction layers of the checkpoint; never built.
  std::int32_t mtp_num_layers = 0;
};

// True for an object that carries Hugging Face's `model_type` or `architectures`.
bool is_hugging_face_config(const JsonCursor& root);

// Error(BadInput) for an unknown model type (the message names the known ones) or a key that is
// missing or wrong; Error(Unsupported) for what is not modelled.
HuggingFaceModel read_hugging_face_config(const JsonCursor& root);

}  // namespace plan
