#include "libplan/model/transformer.h"

#include <catch2/catch.hpp>

#include "libplan/base/error.h"

namespace plan {
namespace {

TransformerConfig small() {
  TransformerConfig config;
  config.num_layers = 1;
  config.hidden_size = 64;
  config.num_attention_heads = 8;
  config.num_query_groups = 4;
  config.ffn_hidden_size = 160;
  config.vocab_size = 1000;
  config.gated_linear_unit = true;
  return config;
}

TransformerConfig small_moe() {
  TransformerConfig config = small();
  config.moe.emplace();
  config.moe->num_moe_experts = 8;
  config.moe->moe_ffn_hidden_size = 48;
  return config;
}

TransformerConfig small_mla() {
  TransformerConfig config = small();
  config.qk_layernorm = true;
  config.mla = MlaConfig{24, 16, 8, 4, 8};
  return config;
}

// "local_name shape @tp_axis", one line per tensor of the layers.
std::string layer_text(const Model& model) {
  std::string text;
  for (const Tensor& tensor : model.tensors) {
    if (tensor.layer < 0) continue;
    text += tensor.local_name + " " + to_string(tensor.shape) + " @" +
            std::to_string(tensor.tp_axis) + "\n";
  }
  return text;
}

const Tensor& named(const Model& model, const std::string& name) {
  for (const Tensor& tensor : model.tensors) {
    if (tensor.name == name) return tensor;
  }
  FAIL("no tensor " << name);
  return model.tensors.front();
}

std::string error_of(const TransformerConfig& config,
                     MegatronVersion version = MegatronVersion::V013,
                     TransformerImpl impl = TransformerImpl::Local) {
  try {
    build_transformer(config, version, impl);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("TransformerEngine fuses the norms into the linears that follow") {
  TransformerConfig config = small();
  config.add_bias_linear = true;
  config.qk_layernorm = true;
  config.normalization = Normalization::LayerNorm;
  const Model model =
      build_transformer(config, MegatronVersion::V013, TransformerImpl::TransformerEngine);
  CHECK(layer_text(model) ==
        "self_attention.linear_proj.weight [64, 64] @1\n"
        "self_attention.linear_proj.bias [64] @-1\n"
        "self_attention.linear_qkv.layer_norm_weight [64] @-1\n"
        "self_attention.linear_qkv.layer_norm_bias [64] @-1\n"
        "self_attention.linear_qkv.weight [128, 64] @0\n"
        "self_attention.linear_qkv.bias [128] @0\n"
        "self_attention.q_layernorm.weight [8] @-1\n"
        "self_attention.q_layernorm.bias [8] @-1\n"
        "self_attention.k_layernorm.weight [8] @-1\n"
        "self_attention.k_layernorm.bias [8] @-1\n"
        "mlp.linear_fc1.layer_norm_weight [64] @-1\n"
        "mlp.linear_fc1.layer_norm_bias [64] @-1\n"
        "mlp.linear_fc1.weight [2, 160, 64] @1\n"
        "mlp.linear_fc1.bias [2, 160] @1\n"
        "mlp.linear_fc2.weight [64, 160] @1\n"
        "mlp.linear_fc2.bias [64] @-1\n");
}

TEST_CASE("a MoE layer keeps its norm apart with TransformerEngine") {
  TransformerConfig config = small_moe();
  config.moe->moe_router_enable_expert_bias = true;
  config.moe->moe_shared_expert_intermediate_size = 80;
  config.moe->moe_shared_expert_gate = true;
  const Model model =
      build_transformer(config, MegatronVersion::V020, TransformerImpl::TransformerEngine);
  CHECK(layer_text(model) ==
        "self_attention.linear_proj.weight [64, 64] @1\n"
        "self_attention.linear_qkv.layer_norm_weight [64] @-1\n"
        "self_attention.linear_qkv.weight [128, 64] @0\n"
        "pre_mlp_layernorm.weight [64] @-1\n"
        "mlp.router.weight [8, 64] @-1\n"
        "mlp.router.expert_bias [8] @-1\n"
        "mlp.experts.linear_fc1.weight{e} [8, 2, 48, 64] @2\n"
        "mlp.experts.linear_fc2.weight{e} [8, 64, 48] @2\n"
        "mlp.shared_experts.gate_weight [1, 64] @-1\n"
        "mlp.shared_experts.linear_fc1.weight [2, 80, 64] @1\n"
        "mlp.shared_experts.linear_fc2.weight [64, 80] @1\n");
  const Tensor& bias = named(model, "decoder.layers.0.mlp.router.expert_bias");
  CHECK(bias.buffer);
  CHECK_FALSE(bias.trainable);
  CHECK(bias.dtype == Dtype::Float32);
}

TEST_CASE("latent attention: TransformerEngine moves its norms, and 0.20 replicates the downs") {
  const char* const expected =
      "input_layernorm.weight [64] @-1\n"
      "self_attention.linear_proj.weight [64, 64] @1\n"
      "self_attention.linear_q_down_proj.weight [24, 64] @DOWN\n"
      "self_attention.linear_q_up_proj.layer_norm_weight [24] @-1\n"
      "self_attention.linear_q_up_proj.weight [96, 24] @0\n"
      "self_attention.linear_kv_down_proj.weight [20, 64] @DOWN\n"
      "self_attention.linear_kv_up_proj.layer_norm_weight [16] @-1\n"
      "self_attention.linear_kv_up_proj.weight [128, 16] @0\n"
      "mlp.linear_fc1.layer_norm_weight [64] @-1\n"
      "mlp.linear_fc1.weight [2, 160, 64] @1\n"
      "mlp.linear_fc2.weight [64, 160] @1\n";
  for (const MegatronVersion version :
       {MegatronVersion::V011, MegatronVersion::V013, MegatronVersion::V020}) {
    std::string text = expected;
    const char* const split = version == MegatronVersion::V020 ? "-1" : "0";
    for (std::size_t at = 0; (at = text.find("DOWN")) != std::string::npos;) {
      text.replace(at, 4, split);
    }
    CHECK(layer_text(build_transformer(small_mla(), version, TransformerImpl::TransformerEngine)) ==
          text);
    const Model local = build_transformer(small_mla(), version, TransformerImpl::Local);
    CHECK(named(local, "decoder.layers.0.self_attention.linear_q_down_proj.weight").tp_axis == 0);
  }
  TransformerConfig plain = small_mla();
  plain.mla->q_lora_rank.reset();
  plain.qk_layernorm = false;
  const std::string text = layer_text(
      build_transformer(plain, MegatronVersion::V020, TransformerImpl::TransformerEngine));
  CHECK(text.find("self_attention.linear_q_proj.weight [96, 64] @0\n") != std::string::npos);
  CHECK(text.find("up_proj.layer_norm") == std::string::npos);
}

TEST_CASE("names and shapes are the same whatever implementation and version") {
  for (const TransformerConfig& config : {small(), small_moe(), small_mla()}) {
    std::vector<std::pair<std::string, Dims>> first;
    for (const MegatronVersion version :
         {MegatronVersion::V011, MegatronVersion::V013, MegatronVersion::V020}) {
      for (const TransformerImpl impl :
           {TransformerImpl::Local, TransformerImpl::TransformerEngine}) {
        std::vector<std::pair<std::string, Dims>> tensors;
        for (const Tensor& tensor : build_transformer(config, version, impl).tensors) {
          tensors.emplace_back(tensor.name, tensor.shape);
        }
        std::sort(tensors.begin(), tensors.end());
        if (first.empty()) first = tensors;
        CHECK(tensors == first);
      }
    }
  }
}

TEST_CASE("which module holds the experts follows Megatron's flags") {
  struct Row {
    std::optional<bool> grouped;
    bool legacy;
    MegatronVersion version;
    TransformerImpl impl;
    ExpertParams expected;
  };
  using enum MegatronVersion;
  using enum TransformerImpl;
  for (const Row& row : {Row{{}, false, V013, Local, ExpertParams::Sequential},
                         Row{true, false, V013, Local, ExpertParams::Fused},
                         Row{true, false, V020, Local, ExpertParams::Sequential},
                         Row{{}, false, V013, TransformerEngine, ExpertParams::PerLinear},
                         Row{true, true, V011, TransformerEngine, ExpertParams::Fused},
                         Row{false, false, V020, TransformerEngine, ExpertParams::Sequential}}) {
    TransformerConfig config = small_moe();
    config.moe->moe_grouped_gemm = row.grouped;
    config.moe->moe_use_legacy_grouped_gemm = row.legacy;
    CHECK(build_transformer(config, row.version, row.impl).expert_params == row.expected);
  }
}

TEST_CASE("the legacy grouped experts lie transposed in memory") {
  TransformerConfig config = small_moe();
  config.moe->moe_grouped_gemm = true;
  const Model gated = build_transformer(config, MegatronVersion::V013, TransformerImpl::Local);
  const Tensor& first = named(gated, "decoder.layers.0.mlp.experts.experts.linear_fc1.weight");
  CHECK(first.local_name == "mlp.experts.weight1");
  CHECK(first.experts_fused);
  CHECK(first.memory_order == std::vector<int>{0, 3, 1, 2});
  CHECK(first.block_axis == 1);
  const Tensor& second = named(gated, "decoder.layers.0.mlp.experts.experts.linear_fc2.weight");
  CHECK(second.local_name == "mlp.experts.weight2");
  CHECK(second.memory_order == std::vector<int>{0, 2, 1});
  config.gated_linear_unit = false;
  const Model plain = build_transformer(config, MegatronVersion::V013, TransformerImpl::Local);
  const Tensor& ungated = named(plain, "decoder.layers.0.mlp.experts.experts.linear_fc1.weight");
  CHECK(ungated.shape == Dims{8, 48, 64});
  CHECK(ungated.memory_order == std::vector<int>{0, 2, 1});
}

TEST_CASE("biases of experts and of 0.20's router") {
  TransformerConfig config = small_moe();
  config.add_bias_linear = true;
  const std::string text = layer_text(
      build_transformer(config, MegatronVersion::V020, TransformerImpl::TransformerEngine));
  CHECK(text.find("mlp.router.weight [8, 64] @-1\n"
                  "mlp.router.bias [8] @-1\n"
                  "mlp.experts.linear_fc1.weight{e} [8, 2, 48, 64] @2\n"
                  "mlp.experts.linear_fc1.bias{e} [8, 2, 48] @2\n"
                  "mlp.experts.linear_fc2.weight{e} [8, 64, 48] @2\n"
                  "mlp.experts.linear_fc2.bias{e} [8, 64] @-1\n") != std::string::npos);
  const std::string older =
      layer_text(build_transformer(config, MegatronVersion::V013, TransformerImpl::Local));
  CHECK(older.find("mlp.router.bias") == std::string::npos);
  CHECK(older.find("mlp.experts.local_experts.{e}.linear_fc1.bias [8, 2, 48] @2\n") !=
        std::string::npos);
}

TEST_CASE("a layer pattern makes layers differ") {
  TransformerConfig config = small_moe();
  config.num_layers = 3;
  CHECK(
      build_transformer(config, MegatronVersion::V013, TransformerImpl::Local).homogeneous_layers);
  config.moe->moe_layer_freq = 2;
  CHECK_FALSE(
      build_transformer(config, MegatronVersion::V013, TransformerImpl::Local).homogeneous_layers);
  CHECK(is_moe_layer(config, 2));
  CHECK_FALSE(is_moe_layer(config, 1));
  config.moe->moe_layer_pattern = {true, true, true};
  CHECK(is_moe_layer(config, 1));
  CHECK_FALSE(
      build_transformer(config, MegatronVersion::V013, TransformerImpl::Local).homogeneous_layers);
}

TEST_CASE("sizes that are missing or do not fit are refused") {
  TransformerConfig config = small();
  config.num_layers = 0;
  CHECK(error_of(config) == "num_layers must be at least 1, found 0");
  config = small();
  config.num_layers = 1 << 20;
  CHECK(error_of(config) == "num_layers must be at most 131072, found 1048576");
  config = small();
  config.num_query_groups = 3;
  CHECK(error_of(config) == "num_query_groups must divide num_attention_heads (8), found 3");
  config = small();
  config.hidden_size = 60;
  CHECK(error_of(config) ==
        "without kv_channels, num_attention_heads must divide hidden_size (60), found 8");
  config.kv_channels = 16;
  CHECK(error_of(config) == "no error");
  config = small();
  config.position_embedding_type = PositionEmbedding::LearnedAbsolute;
  CHECK(error_of(config) == "max_position_embeddings must be at least 1, found 0");
  config = small();
  config.vocab_size = INT64_MAX;
  CHECK(
      error_of(config).starts_with("tensor embedding.word_embeddings.weight: shape "
                                   "[9223372036854775807, 64] is too large"));
  config = small_moe();
  config.moe->moe_layer_pattern = {true, false};
  CHECK(error_of(config) == "moe_layer_freq must list one entry for each of the 1 layers, found 2");
  config = small_moe();
  config.add_bias_linear = true;
  config.moe->moe_grouped_gemm = true;
  CHECK(error_of(config) == "add_bias_linear is not possible with the legacy GroupedMLP");
  config = small_moe();
  config.add_bias_linear = true;
  config.moe->moe_shared_expert_intermediate_size = 80;
  CHECK(error_of(config) == "add_bias_linear is not possible with shared experts");
  config = small_moe();
  config.moe->moe_grouped_gemm = true;
  config.moe->moe_use_legacy_grouped_gemm = true;
  CHECK(error_of(config, MegatronVersion::V020) == "Megatron-Core 0.20 has no legacy GroupedMLP");
  config = small_mla();
  config.mla->v_head_dim = 0;
  CHECK(error_of(config) == "v_head_dim must be at least 1, found 0");
}

}  // namespace
}  // namespace plan
