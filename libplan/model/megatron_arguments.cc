#include "libplan/model/megatron_arguments.h"

#include <string>
#include <utility>

#include "libplan/base/checked.h"

namespace plan {
namespace {

std::int64_t size_at(const JsonCursor& root, std::string_view key) {
  return root.at(key).as_int64(1, INT64_MAX);
}

std::optional<std::int64_t> size_if(const JsonCursor& root, std::string_view key) {
  const std::optional<JsonCursor> value = root.find(key);
  if (!value) return std::nullopt;
  return value->as_int64(1, INT64_MAX);
}

std::optional<bool> flag_if(const JsonCursor& root, std::string_view key) {
  const std::optional<JsonCursor> value = root.find(key);
  if (!value) return std::nullopt;
  return value->as_bool();
}

bool flag(const JsonCursor& root, std::string_view key) {
  return flag_if(root, key).value_or(false);
}

void refuse_both(const JsonCursor& root, std::string_view a, std::string_view b) {
  const std::optional<JsonCursor> second = root.find(b);
  if (root.find(a) && second) {
    second->fail("give " + std::string(a) + " or " + std::string(b) + ", not both");
  }
}

// Megatron: 4h, or with swiglu 8h/3 rounded down to a multiple of 64.
std::int64_t default_ffn(std::int64_t hidden, bool gated) {
  const std::int64_t ffn = checked_mul(4, hidden);
  return gated ? checked_mul(ffn, 2) / 3 / 64 * 64 : ffn;
}

Normalization read_normalization(const JsonCursor& root) {
  const std::optional<JsonCursor> value = root.find("normalization");
  if (!value || value->as_string() == "LayerNorm") return Normalization::LayerNorm;
  if (value->as_string() == "RMSNorm") return Normalization::RmsNorm;
  value->fail("expected \"LayerNorm\" or \"RMSNorm\", found " + describe(value->node()));
}

// yarn and mrope are rotary too: no parameters.
PositionEmbedding read_position_embedding(const JsonCursor& root) {
  const std::optional<JsonCursor> value = root.find("position_embedding_type");
  if (!value || value->as_string() == "learned_absolute") return PositionEmbedding::LearnedAbsolute;
  const std::string& type = value->as_string();
  if (type == "rope" || type == "yarn" || type == "mrope") return PositionEmbedding::Rope;
  if (type == "none") return PositionEmbedding::None;
  value->fail("expected \"learned_absolute\", \"rope\", \"yarn\", \"mrope\" or \"none\", found " +
              describe(value->node()));
}

Dtype read_params_dtype(const JsonCursor& root) {
  refuse_both(root, "bf16", "fp16");
  refuse_both(root, "bf16", "params_dtype");
  refuse_both(root, "fp16", "params_dtype");
  if (flag(root, "bf16")) return Dtype::BFloat16;
  if (flag(root, "fp16")) return Dtype::Float16;
  const std::optional<JsonCursor> value = root.find("params_dtype");
  if (!value) return Dtype::Float32;
  std::string name = value->as_string();
  if (name.starts_with("torch.")) name.erase(0, 6);
  const std::optional<Dtype> dtype = dtype_from_name(name);
  if (!dtype) value->fail("expected a torch dtype, found " + describe(value->node()));
  return *dtype;
}

void read_layer_frequency(const JsonCursor& root, MoeConfig& moe) {
  const std::optional<JsonCursor> value = root.find("moe_layer_freq");
  if (!value) return;
  if (!value->is(JsonKind::Array)) {
    moe.moe_layer_freq = value->as_int32(1, INT32_MAX);
    return;
  }
  for (const JsonCursor& entry : value->elements()) {
    moe.moe_layer_pattern.push_back(entry.as_int32(0, 1) == 1);
  }
}

void read_moe(const JsonCursor& root, TransformerConfig& config) {
  refuse_both(root, "num_experts", "num_moe_experts");
  const char* const count = root.find("num_experts") ? "num_experts" : "num_moe_experts";
  if (!root.find(count)) {
    for (const auto& [key, value] : root.members()) {
      if (key.starts_with("moe_") && !value.is_null()) {
        value.fail(key + " needs num_experts");
      }
    }
    return;
  }
  config.moe.emplace();
  MoeConfig& moe = *config.moe;
  moe.num_moe_experts = root.at(count).as_int32(1, INT32_MAX);
  moe.moe_ffn_hidden_size = size_if(root, "moe_ffn_hidden_size");
  read_layer_frequency(root, moe);
  moe.moe_shared_expert_intermediate_size = size_if(root, "moe_shared_expert_intermediate_size");
  moe.moe_shared_expert_gate = flag(root, "moe_shared_expert_gate");
  moe.moe_grouped_gemm = flag_if(root, "moe_grouped_gemm");
  moe.moe_use_legacy_grouped_gemm = flag(root, "moe_use_legacy_grouped_gemm");
  moe.moe_router_enable_expert_bias = flag(root, "moe_router_enable_expert_bias");
}

void read_mla(const JsonCursor& root, TransformerConfig& config) {
  if (!flag(root, "multi_latent_attention")) return;
  config.mla.emplace();
  config.mla->q_lora_rank = size_if(root, "q_lora_rank");
  config.mla->kv_lora_rank = size_at(root, "kv_lora_rank");
  config.mla->qk_head_dim = size_at(root, "qk_head_dim");
  config.mla->qk_pos_emb_head_dim = size_at(root, "qk_pos_emb_head_dim");
  config.mla->v_head_dim = size_at(root, "v_head_dim");
}

void check_names(const JsonCursor& root) {
  root.expect_object({"name",
                      "num_layers",
                      "hidden_size",
                      "num_attention_heads",
                      "group_query_attention",
                      "num_query_groups",
                      "kv_channels",
                      "ffn_hidden_size",
                      "vocab_size",
                      "make_vocab_size_divisible_by",
                      "max_position_embeddings",
                      "swiglu",
                      "gated_linear_unit",
                      "add_bias_linear",
                      "disable_bias_linear",
                      "add_qkv_bias",
                      "untie_embeddings_and_output_weights",
                      "qk_layernorm",
                      "normalization",
                      "position_embedding_type",
                      "bf16",
                      "fp16",
                      "params_dtype",
                      "num_experts",
                      "num_moe_experts",
                      "moe_ffn_hidden_size",
                      "moe_layer_freq",
                      "moe_shared_expert_intermediate_size",
                      "moe_shared_expert_gate",
                      "moe_grouped_gemm",
                      "moe_use_legacy_grouped_gemm",
                      "moe_router_enable_expert_bias",
                      "multi_latent_attention",
                      "q_lora_rank",
                      "kv_lora_rank",
                      "qk_head_dim",
                      "qk_pos_emb_head_dim",
                      "v_head_dim"});
}

}  // namespace

bool is_megatron_arguments(const JsonCursor& root) {
  return root.node().find("num_layers") != nullptr || root.node().find("hidden_size") != nullptr;
}

TransformerConfig read_megatron_arguments(const JsonCursor& root) {
  check_names(root);
  refuse_both(root, "swiglu", "gated_linear_unit");
  refuse_both(root, "add_bias_linear", "disable_bias_linear");
  TransformerConfig config;
  if (const std::optional<JsonCursor> name = root.find("name")) config.name = name->as_string();
  config.num_layers = root.at("num_layers").as_int32(1, INT32_MAX);
  config.hidden_size = size_at(root, "hidden_size");
  config.num_attention_heads = size_at(root, "num_attention_heads");
  config.num_query_groups = size_if(root, "num_query_groups");
  // The training script's num_query_groups is 1, and counts only with group_query_attention.
  if (const std::optional<bool> grouped = flag_if(root, "group_query_attention")) {
    if (!*grouped) config.num_query_groups.reset();
    if (*grouped && !config.num_query_groups) config.num_query_groups = 1;
  }
  config.kv_channels = size_if(root, "kv_channels");
  config.gated_linear_unit = flag(root, "swiglu") || flag(root, "gated_linear_unit");
  config.ffn_hidden_size = size_if(root, "ffn_hidden_size")
                               .value_or(default_ffn(config.hidden_size, config.gated_linear_unit));
  config.vocab_size = size_at(root, "vocab_size");
  config.make_vocab_size_divisible_by = size_if(root, "make_vocab_size_divisible_by").value_or(128);
  config.max_position_embeddings = size_if(root, "max_position_embeddings").value_or(0);
  config.add_bias_linear =
      flag_if(root, "add_bias_linear").value_or(!flag(root, "disable_bias_linear"));
  config.add_qkv_bias = flag(root, "add_qkv_bias");
  config.untie_embeddings_and_output_weights = flag(root, "untie_embeddings_and_output_weights");
  config.qk_layernorm = flag(root, "qk_layernorm");
  config.normalization = read_normalization(root);
  config.position_embedding_type = read_position_embedding(root);
  config.params_dtype = read_params_dtype(root);
  read_moe(root, config);
  read_mla(root, config);
  return config;
}

}  // namespace plan
