// What the rules for strategy lists read of a model. Zero or false stands for "does not apply", and
// the rules that need the fact are then silent (an explicit tensor list has no attention heads).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "libplan/model/builtin.h"
#include "libplan/model/model.h"
#include "libplan/model/transformer.h"

namespace plan::check {

struct ModelFacts {
  std::string name;
  std::int32_t num_layers = 0;      // L
  std::int32_t num_mtp_layers = 0;  // M
  std::int64_t hidden = 0;
  std::int64_t heads = 0;       // np
  std::int64_t kv_groups = 0;   // ng
  std::int64_t head_size = 0;   // hn
  bool head_size_given = true;  // false: hidden / heads
  std::int64_t ffn = 0;         // F
  bool has_dense_layer = true;  // some layer has F
  std::int64_t experts = 0;     // E; 0: a dense model
  std::int64_t expert_ffn = 0;  // fx
  std::int64_t shared_ffn = 0;  // S, all shared experts together
  bool grouped_experts = true;  // false: one module per expert
  bool expert_bias = false;     // the experts' linear layers have a bias
  bool mla = false;
  bool mla_local_down = false;  // down projections cut by TP in every version (local spec)
  std::int64_t q_lora = 0;
  std::int64_t kv_lora_and_rope = 0;
  std::int64_t gdn_key_heads = 0;  // gated-delta-net layers
  std::int64_t gdn_value_heads = 0;
  bool tied_embeddings = false;
  std::int64_t vocab = 0;
  std::int64_t vocab_divisor = 128;  // make_vocab_size_divisible_by
  bool float16 = false;
  std::shared_ptr<const Model> model;  // for memory; absent: rules S8xx are silent
};

// `impl` is the layer spec that `model` was built with.
ModelFacts model_facts(const TransformerConfig& config, std::int32_t num_mtp_layers,
                       TransformerImpl impl);

// The same of whatever read_model gave.
ModelFacts model_facts(const ModelInput& input, TransformerImpl impl);

}  // namespace plan::check
