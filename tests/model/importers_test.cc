// Hugging Face configs and Megatron arguments.
#include <catch2/catch.hpp>
#include <string>

#include "libplan/base/error.h"
#include "libplan/base/json_tree.h"
#include "libplan/model/huggingface.h"
#include "libplan/model/megatron_arguments.h"
#include "tests/model/place.h"

namespace plan {
namespace {

const std::string kLlama =
    "\"num_hidden_layers\": 4, \"hidden_size\": 64, \"num_attention_heads\": 8, "
    "\"intermediate_size\": 160, \"vocab_size\": 1000";

TransformerConfig hugging_face(const std::string& type, const std::string& more) {
  const std::string text =
      "{\"model_type\": \"" + type + "\", " + kLlama + (more.empty() ? "" : ", " + more) + "}";
  const JsonDocument document = parse_json(text, "config.json");
  return read_hugging_face_config(JsonCursor::root(document)).config;
}

TransformerConfig megatron(const std::string& text) {
  const JsonDocument document = parse_json(text, "args.json");
  return read_megatron_arguments(JsonCursor::root(document));
}

template <class Read>
std::string error_of(Read read) {
  try {
    read();
  } catch (const Error& error) {
    return without_position(error.what());
  }
  return "no error";
}

TEST_CASE("llama and its descendants") {
  TransformerConfig config = hugging_face("llama", "");
  CHECK(config.num_query_groups == 8);
  CHECK(config.gated_linear_unit);
  CHECK(config.untie_embeddings_and_output_weights);
  CHECK_FALSE(config.add_bias_linear);
  CHECK(config.params_dtype == Dtype::BFloat16);
  config = hugging_face("llama",
                        "\"num_key_value_heads\": 2, \"head_dim\": 16, "
                        "\"tie_word_embeddings\": true, \"torch_dtype\": \"float16\", "
                        "\"attention_bias\": true, \"mlp_bias\": true");
  CHECK(config.num_query_groups == 2);
  CHECK(config.kv_channels == 16);
  CHECK_FALSE(config.untie_embeddings_and_output_weights);
  CHECK(config.params_dtype == Dtype::Float16);
  CHECK(config.add_bias_linear);
  config = hugging_face("qwen2",
                        "\"num_key_value_heads\": 2, \"dtype\": \"float32\", "
                        "\"use_sliding_window\": true, \"sliding_window\": 4096");
  CHECK(config.add_qkv_bias);
  CHECK_FALSE(config.qk_layernorm);
  CHECK(config.params_dtype == Dtype::Float32);
  config = hugging_face("qwen3", "\"num_key_value_heads\": 2");
  CHECK(config.kv_channels == 128);
  CHECK(config.qk_layernorm);
  CHECK_FALSE(config.add_qkv_bias);
}

TEST_CASE("mixture of experts") {
  TransformerConfig config =
      hugging_face("mixtral", "\"num_key_value_heads\": 2, \"num_local_experts\": 8");
  CHECK(config.moe->num_moe_experts == 8);
  CHECK(config.moe->moe_ffn_hidden_size == 160);
  CHECK(config.moe->moe_layer_pattern.empty());
  const std::string qwen =
      "\"num_key_value_heads\": 2, \"num_experts\": 8, \"moe_intermediate_size\": 48";
  CHECK(hugging_face("qwen3_moe", qwen).moe->moe_layer_pattern.empty());
  CHECK(hugging_face("qwen3_moe", qwen + ", \"decoder_sparse_step\": 2").moe->moe_layer_pattern ==
        std::vector<bool>{false, true, false, true});
  CHECK(hugging_face("qwen3_moe", qwen + ", \"mlp_only_layers\": [0, 3]").moe->moe_layer_pattern ==
        std::vector<bool>{false, true, true, false});
  CHECK_FALSE(hugging_face("qwen3_moe", qwen + ", \"mlp_only_layers\": [0, 1, 2, 3]").moe);
}

TEST_CASE("deepseek") {
  const std::string base =
      "\"kv_lora_rank\": 16, \"qk_nope_head_dim\": 8, \"qk_rope_head_dim\": 4, \"v_head_dim\": 8, "
      "\"n_routed_experts\": 8, \"moe_intermediate_size\": 48, \"n_shared_experts\": 2, "
      "\"q_lora_rank\": ";
  TransformerConfig config =
      hugging_face("deepseek_v3", base +
                                      "24, \"first_k_dense_replace\": 1, "
                                      "\"quantization_config\": {\"quant_method\": \"fp8\"}");
  CHECK(config.mla == MlaConfig{24, 16, 8, 4, 8});
  CHECK(config.qk_layernorm);
  CHECK(config.moe->moe_shared_expert_intermediate_size == 96);
  CHECK(config.moe->moe_router_enable_expert_bias);
  CHECK(config.moe->moe_layer_pattern == std::vector<bool>{false, true, true, true});
  config = hugging_face("deepseek_v2", base + "null, \"topk_method\": \"greedy\"");
  CHECK_FALSE(config.mla->q_lora_rank);
  CHECK_FALSE(config.moe->moe_router_enable_expert_bias);
  CHECK(config.moe->moe_layer_pattern.empty());
}

TEST_CASE("gpt2") {
  const JsonDocument document = parse_json(
      R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "n_inner": null,
          "n_positions": 16, "vocab_size": 10})",
      "config.json");
  const TransformerConfig config = read_hugging_face_config(JsonCursor::root(document)).config;
  CHECK(config.ffn_hidden_size == 32);
  CHECK(config.add_bias_linear);
  CHECK_FALSE(config.gated_linear_unit);
  CHECK_FALSE(config.untie_embeddings_and_output_weights);
  CHECK(config.normalization == Normalization::LayerNorm);
  CHECK(config.position_embedding_type == PositionEmbedding::LearnedAbsolute);
  CHECK(config.max_position_embeddings == 16);
}

TEST_CASE("configs that are wrong or not modelled are refused by name") {
  struct Row {
    const char* type;
    const char* more;
    const char* expected;
  };
  for (const Row& row : {
           Row{"bert", "",
               "config.json:/model_type: expected a known model_type "
               "(deepseek_v2, deepseek_v3, gpt2, llama, mixtral, qwen2, qwen3, qwen3_moe), found "
               "the string \"bert\""},
           Row{"llama", "\"quantization_config\": {\"quant_method\": \"awq\"}",
               "config.json:/quantization_config: quantization_config is not "
               "supported: only quant_method \"fp8\" leaves the trained parameters as they are, "
               "found the string \"awq\""},
           Row{"llama", "\"block_configs\": []",
               "config.json:/block_configs: block_configs is not supported: "
               "its layers differ in their shapes"},
           Row{"llama", "\"attention_bias\": true",
               "config.json:/attention_bias: attention_bias is not supported: "
               "Megatron-Core has no bias on the attention projections alone"},
           Row{"llama", "\"mlp_bias\": true",
               "config.json:/mlp_bias: mlp_bias is not supported: "
               "Megatron-Core has no bias on the MLP alone"},
           Row{"llama", "\"torch_dtype\": \"floaty\"",
               "config.json:/torch_dtype: expected a torch dtype, found the "
               "string \"floaty\""},
           Row{"llama", "\"head_dim\": 0",
               "config.json:/head_dim: expected 1 to 9223372036854775807, "
               "found 0"},
           Row{"qwen2", "", "config.json:: required key \"num_key_value_heads\" is missing"},
           Row{"qwen3_moe",
               "\"num_key_value_heads\": 2, \"num_experts\": 8, \"moe_intermediate_size\": 48, "
               "\"mlp_only_layers\": [4]",
               "config.json:/mlp_only_layers/0: expected 0 to 3, found 4"},
       }) {
    CHECK(error_of([&] { hugging_face(row.type, row.more); }) == row.expected);
  }
}

TEST_CASE("Megatron arguments have the training script's names and defaults") {
  TransformerConfig config =
      megatron(R"({"num_layers": 2, "hidden_size": 64, "num_attention_heads": 8,
                   "vocab_size": 1000, "max_position_embeddings": 128})");
  CHECK(config.ffn_hidden_size == 256);
  CHECK(config.add_bias_linear);
  CHECK_FALSE(config.untie_embeddings_and_output_weights);
  CHECK(config.normalization == Normalization::LayerNorm);
  CHECK(config.position_embedding_type == PositionEmbedding::LearnedAbsolute);
  CHECK(config.params_dtype == Dtype::Float32);
  CHECK_FALSE(config.num_query_groups);
  config = megatron(
      R"({"name": "m", "num_layers": 2, "hidden_size": 192, "num_attention_heads": 8,
          "vocab_size": 1000, "swiglu": true, "disable_bias_linear": true, "bf16": true,
          "group_query_attention": true, "num_query_groups": 2, "normalization": "RMSNorm",
          "position_embedding_type": "rope", "untie_embeddings_and_output_weights": true,
          "num_experts": 8, "moe_layer_freq": [0, 1], "moe_grouped_gemm": true,
          "multi_latent_attention": true, "kv_lora_rank": 16, "qk_head_dim": 8,
          "qk_pos_emb_head_dim": 4, "v_head_dim": 8})");
  CHECK(config.name == "m");
  CHECK(config.ffn_hidden_size == 512);
  CHECK_FALSE(config.add_bias_linear);
  CHECK(config.num_query_groups == 2);
  CHECK(config.params_dtype == Dtype::BFloat16);
  CHECK(config.moe->moe_layer_pattern == std::vector<bool>{false, true});
  CHECK(config.moe->moe_grouped_gemm == true);
  CHECK_FALSE(config.mla->q_lora_rank);
  const std::string base =
      R"("num_layers": 2, "hidden_size": 64, "num_attention_heads": 8, "vocab_size": 1000)";
  CHECK_FALSE(megatron("{" + base + R"(, "num_query_groups": 2, "group_query_attention": false})")
                  .num_query_groups);
  CHECK(megatron("{" + base + R"(, "group_query_attention": true})").num_query_groups == 1);
  CHECK(megatron("{" + base + R"(, "params_dtype": "torch.float16"})").params_dtype ==
        Dtype::Float16);
}

TEST_CASE("Megatron arguments that are unknown or contradict each other are refused") {
  struct Row {
    const char* more;
    const char* expected;
  };
  for (const Row& row : {
           Row{R"("num_query_group": 2)",
               "args.json:/num_query_group: unknown key \"num_query_group\"; "
               "the nearest known key is \"num_query_groups\""},
           Row{R"("swiglu": true, "gated_linear_unit": true)",
               "args.json:/gated_linear_unit: give swiglu or "
               "gated_linear_unit, not both"},
           Row{R"("bf16": true, "fp16": true)", "args.json:/fp16: give bf16 or fp16, not both"},
           Row{R"("moe_ffn_hidden_size": 48)",
               "args.json:/moe_ffn_hidden_size: moe_ffn_hidden_size needs "
               "num_experts"},
           Row{R"("num_experts": 8, "moe_layer_freq": "[0]*2")",
               "args.json:/moe_layer_freq: expected an integer, found the "
               "string \"[0]*2\""},
           Row{R"("normalization": "BatchNorm")",
               "args.json:/normalization: expected \"LayerNorm\" or "
               "\"RMSNorm\", found the string \"BatchNorm\""},
           Row{R"("multi_latent_attention": true)",
               "args.json:: required key \"kv_lora_rank\" is missing"},
       }) {
    const std::string text =
        R"({"num_layers": 2, "hidden_size": 64, "num_attention_heads": 8, "vocab_size": 1000, )";
    CHECK(error_of([&] { megatron(text + row.more + "}"); }) == row.expected);
  }
}

}  // namespace
}  // namespace plan
