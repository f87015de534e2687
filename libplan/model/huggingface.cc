#include "libplan/model/huggingface.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "libplan/base/checked.h"

namespace plan {
namespace {

std::int64_t size_at(const JsonCursor& root, std::string_view key) {
  return root.at(key).as_int64(1, INT64_MAX);
}

std::int64_t size_or(const JsonCursor& root, std::string_view key, std::int64_t fallback) {
  const std::optional<JsonCursor> value = root.find(key);
  return value ? value->as_int64(1, INT64_MAX) : fallback;
}

bool flag_or(const JsonCursor& root, std::string_view key, bool fallback) {
  const std::optional<JsonCursor> value = root.find(key);
  return value ? value->as_bool() : fallback;
}

void refuse_if_set(const JsonCursor& root, std::string_view key, const std::string& why) {
  const std::optional<JsonCursor> value = root.find(key);
  if (!value) return;
  if (value->is(JsonKind::Bool) && !value->as_bool()) return;
  value->fail(std::string(key) + " is not supported: " + why, ErrorCode::Unsupported);
}

Dtype read_dtype(const JsonCursor& root) {
  for (const char* key : {"torch_dtype", "dtype"}) {
    const std::optional<JsonCursor> value = root.find(key);
    if (!value) continue;
    const std::optional<Dtype> dtype = dtype_from_name(value->as_string());
    if (!dtype) value->fail("expected a torch dtype, found " + describe(value->node()));
    return *dtype;
  }
  return Dtype::BFloat16;
}

// fp8 is only how the published checkpoint is stored (DeepSeek-V3): training keeps the parameters
// in torch_dtype. Other methods pack or replace the weights.
void check_quantization(const JsonCursor& root) {
  const std::optional<JsonCursor> quantization = root.find("quantization_config");
  if (!quantization) return;
  const std::optional<JsonCursor> method = quantization->find("quant_method");
  if (method && method->as_string() == "fp8") return;
  quantization->fail(
      "quantization_config is not supported: only quant_method \"fp8\" leaves the "
      "trained parameters as they are, found " +
          (method ? describe(method->node()) : std::string("no quant_method")),
      ErrorCode::Unsupported);
}

// What llama and its descendants share.
TransformerConfig read_llama_like(const JsonCursor& root) {
  TransformerConfig config;
  config.num_layers = root.at("num_hidden_layers").as_int32(1, INT32_MAX);
  config.hidden_size = size_at(root, "hidden_size");
  config.num_attention_heads = size_at(root, "num_attention_heads");
  config.ffn_hidden_size = size_at(root, "intermediate_size");
  config.vocab_size = size_at(root, "vocab_size");
  config.max_position_embeddings = size_or(root, "max_position_embeddings", 0);
  config.gated_linear_unit = true;
  config.untie_embeddings_and_output_weights = !flag_or(root, "tie_word_embeddings", false);
  return config;
}

void read_query_groups(const JsonCursor& root, TransformerConfig& config) {
  config.num_query_groups = size_at(root, "num_key_value_heads");
}

void read_head_dim(const JsonCursor& root, TransformerConfig& config) {
  if (root.find("head_dim")) config.kv_channels = size_at(root, "head_dim");
}

// Megatron has biases on all linears, on QKV alone, or on none.
void refuse_attention_bias(const JsonCursor& root) {
  refuse_if_set(root, "attention_bias",
                "Megatron-Core has no bias on the attention projections alone");
}

TransformerConfig read_llama(const JsonCursor& root) {
  TransformerConfig config = read_llama_like(root);
  config.num_query_groups = size_or(root, "num_key_value_heads", config.num_attention_heads);
  read_head_dim(root, config);
  if (flag_or(root, "attention_bias", false) && flag_or(root, "mlp_bias", false)) {
    config.add_bias_linear = true;
    return config;
  }
  refuse_attention_bias(root);
  refuse_if_set(root, "mlp_bias", "Megatron-Core has no bias on the MLP alone");
  return config;
}

TransformerConfig read_qwen2(const JsonCursor& root) {
  TransformerConfig config = read_llama_like(root);
  read_query_groups(root, config);
  config.add_qkv_bias = true;
  return config;
}

TransformerConfig read_qwen3(const JsonCursor& root) {
  TransformerConfig config = read_llama_like(root);
  read_query_groups(root, config);
  config.kv_channels = size_or(root, "head_dim", 128);  // the default of Qwen3Config
  config.qk_layernorm = true;
  refuse_attention_bias(root);
  return config;
}

TransformerConfig read_mixtral(const JsonCursor& root) {
  TransformerConfig config = read_llama_like(root);
  read_query_groups(root, config);
  read_head_dim(root, config);
  config.moe.emplace();
  config.moe->num_moe_experts = root.at("num_local_experts").as_int32(1, INT32_MAX);
  config.moe->moe_ffn_hidden_size = config.ffn_hidden_size;
  return config;
}

// All layers MoE needs no pattern, no layer MoE no experts.
void set_moe_layers(TransformerConfig& config, std::vector<bool> pattern) {
  const bool any = std::find(pattern.begin(), pattern.end(), true) != pattern.end();
  const bool all = std::find(pattern.begin(), pattern.end(), false) == pattern.end();
  if (!any) {
    config.moe.reset();
  } else if (!all) {
    config.moe->moe_layer_pattern = std::move(pattern);
  }
}

TransformerConfig read_qwen3_moe(const JsonCursor& root) {
  TransformerConfig config = read_llama_like(root);
  read_query_groups(root, config);
  read_head_dim(root, config);
  config.qk_layernorm = true;
  refuse_attention_bias(root);
  config.moe.emplace();
  config.moe->num_moe_experts = root.at("num_experts").as_int32(1, INT32_MAX);
  config.moe->moe_ffn_hidden_size = size_at(root, "moe_intermediate_size");
  const std::int64_t step = size_or(root, "decoder_sparse_step", 1);
  std::set<std::int32_t> dense;
  if (const std::optional<JsonCursor> list = root.find("mlp_only_layers")) {
    for (const JsonCursor& layer : list->elements()) {
      dense.insert(layer.as_int32(0, config.num_layers - 1));
    }
  }
  std::vector<bool> pattern;
  for (std::int32_t layer = 0; layer < config.num_layers; ++layer) {
    pattern.push_back((layer + 1) % step == 0 && !dense.contains(layer));
  }
  set_moe_layers(config, std::move(pattern));
  return config;
}

void read_deepseek_moe(const JsonCursor& root, bool third, TransformerConfig& config) {
  if (!root.find("n_routed_experts")) return;
  config.moe.emplace();
  MoeConfig& moe = *config.moe;
  moe.num_moe_experts = root.at("n_routed_experts").as_int32(1, INT32_MAX);
  moe.moe_ffn_hidden_size = size_at(root, "moe_intermediate_size");
  if (const std::optional<JsonCursor> shared = root.find("n_shared_experts")) {
    const std::int64_t count = shared->as_int64(0, INT64_MAX);
    if (count > 0) {
      moe.moe_shared_expert_intermediate_size = checked_mul(count, *moe.moe_ffn_hidden_size);
    }
  }
  const std::optional<JsonCursor> method = root.find("topk_method");
  moe.moe_router_enable_expert_bias = method ? method->as_string() == "noaux_tc" : third;
  std::int32_t first_dense = third ? 3 : 0;
  if (const std::optional<JsonCursor> first = root.find("first_k_dense_replace")) {
    first_dense = first->as_int32(0, INT32_MAX);
  }
  const std::int64_t frequency = size_or(root, "moe_layer_freq", 1);
  std::vector<bool> pattern;
  for (std::int32_t layer = 0; layer < config.num_layers; ++layer) {
    pattern.push_back(layer >= first_dense && layer % frequency == 0);
  }
  set_moe_layers(config, std::move(pattern));
}

TransformerConfig read_deepseek(const JsonCursor& root, bool third) {
  TransformerConfig config = read_llama_like(root);
  refuse_attention_bias(root);
  config.qk_layernorm = true;
  config.mla.emplace();
  if (root.find("q_lora_rank")) config.mla->q_lora_rank = size_at(root, "q_lora_rank");
  config.mla->kv_lora_rank = size_at(root, "kv_lora_rank");
  config.mla->qk_head_dim = size_at(root, "qk_nope_head_dim");
  config.mla->qk_pos_emb_head_dim = size_at(root, "qk_rope_head_dim");
  config.mla->v_head_dim = size_at(root, "v_head_dim");
  read_deepseek_moe(root, third, config);
  return config;
}

TransformerConfig read_deepseek_v2(const JsonCursor& root) { return read_deepseek(root, false); }

TransformerConfig read_deepseek_v3(const JsonCursor& root) { return read_deepseek(root, true); }

TransformerConfig read_gpt2(const JsonCursor& root) {
  refuse_if_set(root, "add_cross_attention", "encoders are not modelled");
  TransformerConfig config;
  config.num_layers = root.at("n_layer").as_int32(1, INT32_MAX);
  config.hidden_size = size_at(root, "n_embd");
  config.num_attention_heads = size_at(root, "n_head");
  config.ffn_hidden_size = size_or(root, "n_inner", checked_mul(4, config.hidden_size));
  config.vocab_size = size_at(root, "vocab_size");
  config.max_position_embeddings = size_at(root, "n_positions");
  config.add_bias_linear = true;
  config.add_qkv_bias = true;
  config.untie_embeddings_and_output_weights = !flag_or(root, "tie_word_embeddings", true);
  config.normalization = Normalization::LayerNorm;
  config.position_embedding_type = PositionEmbedding::LearnedAbsolute;
  return config;
}

struct ModelType {
  std::string_view name;
  TransformerConfig (*read)(const JsonCursor&);
};

constexpr std::array kModelTypes = {
    ModelType{"deepseek_v2", read_deepseek_v2},
    ModelType{"deepseek_v3", read_deepseek_v3},
    ModelType{"gpt2", read_gpt2},
    ModelType{"llama", read_llama},
    ModelType{"mixtral", read_mixtral},
    ModelType{"qwen2", read_qwen2},
    ModelType{"qwen3", read_qwen3},
    ModelType{"qwen3_moe", read_qwen3_moe},
};

const ModelType& model_type_of(const JsonCursor& root) {
  const JsonCursor name = root.at("model_type");
  std::string known;
  for (const ModelType& type : kModelTypes) {
    if (name.as_string() == type.name) return type;
    known += (known.empty() ? "" : ", ") + std::string(type.name);
  }
  name.fail("expected a known model_type (" + known + "), found " + describe(name.node()));
}

}  // namespace

bool is_hugging_face_config(const JsonCursor& root) {
  return root.node().find("model_type") != nullptr || root.node().find("architectures") != nullptr;
}

HuggingFaceModel read_hugging_face_config(const JsonCursor& root) {
  const ModelType& type = model_type_of(root);
  refuse_if_set(root, "block_configs", "its layers differ in their shapes");
  check_quantization(root);
  HuggingFaceModel model;
  model.config = type.read(root);
  model.config.params_dtype = read_dtype(root);
  if (const std::optional<JsonCursor> layers = root.find("num_nextn_predict_layers")) {
    model.mtp_num_layers = layers->as_int32(0, INT32_MAX);
  }
  return model;
}

}  // namespace plan
