#include "libplan/strategy/model_facts.h"

namespace plan::check {
namespace {

void set_moe(ModelFacts& facts, const TransformerConfig& config, TransformerImpl impl) {
  const MoeConfig& moe = *config.moe;
  facts.experts = moe.num_moe_experts;
  facts.expert_ffn = moe.moe_ffn_hidden_size.value_or(config.ffn_hidden_size);
  facts.shared_ffn = moe.moe_shared_expert_intermediate_size.value_or(0);
  facts.grouped_experts =
      moe.moe_grouped_gemm.value_or(impl == TransformerImpl::TransformerEngine) ||
      moe.moe_use_legacy_grouped_gemm;
  facts.expert_bias = config.add_bias_linear;
  facts.has_dense_layer = false;
  for (std::int32_t layer = 0; layer < config.num_layers; ++layer) {
    if (!is_moe_layer(config, layer)) facts.has_dense_layer = true;
  }
}

}  // namespace

ModelFacts model_facts(const TransformerConfig& config, std::int32_t num_mtp_layers,
                       TransformerImpl impl) {
  ModelFacts facts;
  facts.name = config.name;
  facts.num_layers = config.num_layers;
  facts.num_mtp_layers = num_mtp_layers;
  facts.hidden = config.hidden_size;
  facts.heads = config.num_attention_heads;
  facts.kv_groups = config.num_query_groups.value_or(config.num_attention_heads);
  facts.head_size_given = config.kv_channels.has_value();
  facts.head_size = config.kv_channels.value_or(
      config.num_attention_heads > 0 ? config.hidden_size / config.num_attention_heads : 0);
  facts.ffn = config.ffn_hidden_size;
  facts.tied_embeddings = !config.untie_embeddings_and_output_weights;
  facts.vocab = config.vocab_size;
  facts.vocab_divisor = config.make_vocab_size_divisible_by;
  facts.float16 = config.params_dtype == Dtype::Float16;
  if (config.moe) set_moe(facts, config, impl);
  if (config.mla) {
    facts.mla = true;
    facts.head_size_given = true;
    facts.mla_local_down = impl == TransformerImpl::Local;
    facts.q_lora = config.mla->q_lora_rank.value_or(0);
    facts.kv_lora_and_rope = config.mla->kv_lora_rank + config.mla->qk_pos_emb_head_dim;
  }
  return facts;
}

ModelFacts model_facts(const ModelInput& input, TransformerImpl impl) {
  ModelFacts facts;
  if (input.config) {
    facts = model_facts(*input.config, input.mtp_num_layers, impl);
  } else {
    facts.num_layers = input.model.num_layers;
    facts.experts = input.model.num_experts;
    facts.tied_embeddings = input.model.tied_embeddings;
    facts.vocab_divisor = input.model.make_vocab_size_divisible_by;
    for (const Tensor& tensor : input.model.tensors) {
      if (tensor.vocab_axis >= 0) facts.vocab = tensor.shape[tensor.vocab_axis];
    }
  }
  facts.name = input.model.name;
  facts.model = std::make_shared<const Model>(input.model);
  return facts;
}

}  // namespace plan::check
