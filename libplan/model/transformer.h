// Megatron-Core's GPTModel as a Model: which parameters it has, their shapes and splits, and the
// order in which the chosen implementation registers them.
//
// Sources: Megatron-LM core_v0.11.0, core_v0.13.0 and package version 0.20.0 (d98e8a64); the local
// spec is checked against layouts dumped from the real code (tests/golden/megatron), the
// TransformerEngine spec is read from the source.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libplan/base/dtype.h"
#include "libplan/model/model.h"

namespace plan {

enum class MegatronVersion : std::uint8_t { V011, V013, V020 };

// Which layer spec builds the model (--transformer-impl local | transformer_engine).
enum class TransformerImpl : std::uint8_t { Local, TransformerEngine };

enum class Normalization : std::uint8_t { RmsNorm, LayerNorm };
enum class PositionEmbedding : std::uint8_t { Rope, LearnedAbsolute, None };

// Fields have Megatron's argument names.
struct MoeConfig {
  std::int32_t num_moe_experts = 0;
  std::optional<std::int64_t> moe_ffn_hidden_size;  // absent: ffn_hidden_size
  std::int32_t moe_layer_freq = 1;                  // layer g is MoE iff g mod freq = 0
  std::vector<bool> moe_layer_pattern;  // one per global layer, wins over the frequency; or empty
  std::optional<std::int64_t> moe_shared_expert_intermediate_size;  // absent: no shared experts
  bool moe_shared_expert_gate = false;
  // Absent: true with TransformerEngine (TEGroupedMLP), false with the local spec (SequentialMLP).
  std::optional<bool> moe_grouped_gemm;
  bool moe_use_legacy_grouped_gemm = false;    // GroupedMLP also with TransformerEngine; <= 0.13
  bool moe_router_enable_expert_bias = false;  // float32 buffer router.expert_bias
  friend bool operator==(const MoeConfig&, const MoeConfig&) = default;
};

// Multi-latent attention (DeepSeek).
struct MlaConfig {
  std::optional<std::int64_t> q_lora_rank;  // absent: one full query projection
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_head_dim = 0;
  std::int64_t qk_pos_emb_head_dim = 0;
  std::int64_t v_head_dim = 0;
  friend bool operator==(const MlaConfig&, const MlaConfig&) = default;
};

// Fields have Megatron's argument names; sizes in elements.
struct TransformerConfig {
  std::string name;
  std::int32_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::optional<std::int64_t> num_query_groups;  // absent: num_attention_heads
  std::optional<std::int64_t> kv_channels;       // absent: hidden_size / num_attention_heads
  std::int64_t ffn_hidden_size = 0;
  std::int64_t vocab_size = 0;  // true tokens, without padding
  std::int64_t make_vocab_size_divisible_by = 128;
  std::int64_t max_position_embeddings = 0;  // used by learned_absolute only
  bool gated_linear_unit = false;
  bool add_bias_linear = false;
  bool add_qkv_bias = false;
  bool untie_embeddings_and_output_weights = true;
  bool qk_layernorm = false;
  Normalization normalization = Normalization::RmsNorm;
  PositionEmbedding position_embedding_type = PositionEmbedding::Rope;
  Dtype params_dtype = Dtype::BFloat16;
  std::optional<MoeConfig> moe;
  std::optional<MlaConfig> mla;
  friend bool operator==(const TransformerConfig&, const TransformerConfig&) = default;
};

// True if global layer `layer` has experts.
bool is_moe_layer(const TransformerConfig& config, std::int32_t layer);

// The whole model (all layers, as with pp = 1), in registration order.
//
// Tensor::name is the key under which the local spec saves the tensor, always with the global layer
// number, whatever implementation is asked for: layouts of both implementations name the same
// tensor alike. So the pre-MLP norm is `mlp.linear_fc1.layer_norm_weight` in dense and MoE layers,
// `pre_mlp_layernorm.weight` with MLA; the norm before attention is
// `self_attention.linear_qkv.layer_norm_weight`, `input_layernorm.weight` with MLA.
// Tensor::local_name is what the implementation registers, `{e}` standing for the local expert.
//
// The experts of one layer are one tensor per linear and kind, [experts, 2 if gated, ffn, hidden]
// and [experts, hidden, ffn], in the order fc1.weight, fc1.bias, fc2.weight, fc2.bias; how these
// interleave over the local experts is Model::expert_params.
//
// Error(BadInput) for sizes that are missing, negative, or do not divide; Error(Unsupported) for
// what the version cannot build.
Model build_transformer(const TransformerConfig& config, MegatronVersion version,
                        TransformerImpl impl);

}  // namespace plan
