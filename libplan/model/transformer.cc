#include "libplan/model/transformer.h"

#include <algorithm>
#include <utility>

#include "libplan/base/checked.h"
#include "libplan/base/error.h"

namespace plan {
namespace {

constexpr std::int64_t kMaxLayers = kMaxTensors / 32;  // a layer has fewer than 32 tensors

[[noreturn]] void refuse(const std::string& message, ErrorCode code = ErrorCode::BadInput) {
  throw Error(code, message);
}

void require_positive(const char* name, std::int64_t value) {
  if (value < 1) {
    refuse(std::string(name) + " must be at least 1, found " + std::to_string(value));
  }
}

void check_moe(const TransformerConfig& config, ExpertParams params) {
  const MoeConfig& moe = *config.moe;
  require_positive("num_moe_experts", moe.num_moe_experts);
  require_positive("moe_layer_freq", moe.moe_layer_freq);
  require_positive("moe_ffn_hidden_size", moe.moe_ffn_hidden_size.value_or(1));
  require_positive("moe_shared_expert_intermediate_size",
                   moe.moe_shared_expert_intermediate_size.value_or(1));
  const std::size_t pattern = moe.moe_layer_pattern.size();
  if (pattern != 0 && pattern != static_cast<std::size_t>(config.num_layers)) {
    refuse("moe_layer_freq must list one entry for each of the " +
           std::to_string(config.num_layers) + " layers, found " + std::to_string(pattern));
  }
  if (config.add_bias_linear && params == ExpertParams::Fused) {
    refuse("add_bias_linear is not possible with the legacy GroupedMLP", ErrorCode::Unsupported);
  }
  if (config.add_bias_linear && moe.moe_shared_expert_intermediate_size) {
    refuse("add_bias_linear is not possible with shared experts", ErrorCode::Unsupported);
  }
}

void check(const TransformerConfig& config) {
  require_positive("num_layers", config.num_layers);
  if (config.num_layers > kMaxLayers) {
    refuse("num_layers must be at most " + std::to_string(kMaxLayers) + ", found " +
           std::to_string(config.num_layers));
  }
  require_positive("hidden_size", config.hidden_size);
  require_positive("num_attention_heads", config.num_attention_heads);
  require_positive("ffn_hidden_size", config.ffn_hidden_size);
  require_positive("vocab_size", config.vocab_size);
  require_positive("make_vocab_size_divisible_by", config.make_vocab_size_divisible_by);
  if (config.position_embedding_type == PositionEmbedding::LearnedAbsolute) {
    require_positive("max_position_embeddings", config.max_position_embeddings);
  }
  if (config.mla) {
    require_positive("q_lora_rank", config.mla->q_lora_rank.value_or(1));
    require_positive("kv_lora_rank", config.mla->kv_lora_rank);
    require_positive("qk_head_dim", config.mla->qk_head_dim);
    require_positive("qk_pos_emb_head_dim", config.mla->qk_pos_emb_head_dim);
    require_positive("v_head_dim", config.mla->v_head_dim);
    return;
  }
  const std::int64_t groups = config.num_query_groups.value_or(config.num_attention_heads);
  require_positive("num_query_groups", groups);
  if (config.num_attention_heads % groups != 0) {
    refuse("num_query_groups must divide num_attention_heads (" +
           std::to_string(config.num_attention_heads) + "), found " + std::to_string(groups));
  }
  require_positive("kv_channels", config.kv_channels.value_or(1));
  if (!config.kv_channels && config.hidden_size % config.num_attention_heads != 0) {
    refuse("without kv_channels, num_attention_heads must divide hidden_size (" +
           std::to_string(config.hidden_size) + "), found " +
           std::to_string(config.num_attention_heads));
  }
}

ExpertParams expert_params_of(const TransformerConfig& config, MegatronVersion version,
                              TransformerImpl impl) {
  if (!config.moe) return ExpertParams::Sequential;
  const MoeConfig& moe = *config.moe;
  const bool engine = impl == TransformerImpl::TransformerEngine;
  if (!moe.moe_grouped_gemm.value_or(engine)) return ExpertParams::Sequential;
  if (version == MegatronVersion::V020) {
    if (moe.moe_use_legacy_grouped_gemm) {
      refuse("Megatron-Core 0.20 has no legacy GroupedMLP", ErrorCode::Unsupported);
    }
    // Its local spec builds SequentialMLP whatever moe_grouped_gemm says.
    return engine ? ExpertParams::PerLinear : ExpertParams::Sequential;
  }
  return engine && !moe.moe_use_legacy_grouped_gemm ? ExpertParams::PerLinear : ExpertParams::Fused;
}

// Adds tensors in registration order. Inside a layer, names are relative to `decoder.layers.{i}.`.
class Registrar {
 public:
  Registrar(const TransformerConfig& config, MegatronVersion version, TransformerImpl impl)
      : config_(config),
        version_(version),
        engine_(impl == TransformerImpl::TransformerEngine),
        gated_(config.gated_linear_unit) {
    model_.name = config.name;
    model_.num_layers = config.num_layers;
    model_.num_experts = config.moe ? config.moe->num_moe_experts : 0;
    model_.expert_params = expert_params_of(config, version, impl);
    model_.tied_embeddings = !config.untie_embeddings_and_output_weights;
    model_.make_vocab_size_divisible_by = config.make_vocab_size_divisible_by;
    model_.homogeneous_layers =
        !config.moe || (config.moe->moe_layer_freq == 1 && config.moe->moe_layer_pattern.empty());
    if (config.moe) check_moe(config, model_.expert_params);
  }

  Model build() && {
    embedding();
    for (std::int32_t layer = 0; layer < config_.num_layers; ++layer) {
      role_ = StageRole::Layer;
      layer_ = layer;
      prefix_ = "decoder.layers." + std::to_string(layer) + ".";
      decoder_layer(is_moe_layer(config_, layer));
    }
    layer_ = -1;
    prefix_.clear();
    role_ = StageRole::Last;
    norm("decoder.final_layernorm.", "decoder.final_layernorm.", config_.hidden_size);
    if (!model_.tied_embeddings) {
      add("output_layer.weight", {config_.vocab_size, config_.hidden_size}, 0).vocab_axis = 0;
    }
    return std::move(model_);
  }

 private:
  // The returned reference holds until the next add.
  Tensor& add(const std::string& name, Dims shape, int tp_axis = -1) {
    Tensor tensor;
    tensor.name = prefix_ + name;
    tensor.local_name = name;
    tensor.shape = shape;
    tensor.dtype = config_.params_dtype;
    tensor.tp_axis = tp_axis;
    tensor.stage = role_;
    tensor.layer = layer_;
    model_.tensors.push_back(std::move(tensor));
    return model_.tensors.back();
  }

  // `name` and `local` end where "weight" or "bias" follows.
  void norm(const std::string& name, const std::string& local, std::int64_t size) {
    add(name + "weight", {size}).local_name = local + "weight";
    if (config_.normalization == Normalization::LayerNorm) {
      add(name + "bias", {size}).local_name = local + "bias";
    }
  }

  // Output rows split over TP, and so the bias.
  void column_linear(const std::string& name, std::int64_t rows, std::int64_t columns, bool bias) {
    add(name + ".weight", {rows, columns}, 0);
    if (bias) add(name + ".bias", {rows}, 0);
  }

  // Input columns split over TP; the bias is replicated.
  void row_linear(const std::string& name, std::int64_t rows, std::int64_t columns, bool bias) {
    add(name + ".weight", {rows, columns}, 1);
    if (bias) add(name + ".bias", {rows});
  }

  // [gate; up] as an axis of its own, since TP cuts each half by itself.
  void gated_column_linear(const std::string& name, std::int64_t rows, std::int64_t columns,
                           bool bias) {
    add(name + ".weight", {2, rows, columns}, 1).block_axis = 0;
    if (bias) add(name + ".bias", {2, rows}, 1).block_axis = 0;
  }

  void embedding() {
    role_ = model_.tied_embeddings ? StageRole::FirstAndLast : StageRole::First;
    add("embedding.word_embeddings.weight", {config_.vocab_size, config_.hidden_size}, 0)
        .vocab_axis = 0;
    role_ = StageRole::First;
    if (config_.position_embedding_type == PositionEmbedding::LearnedAbsolute) {
      add("embedding.position_embeddings.weight",
          {config_.max_position_embeddings, config_.hidden_size});
    }
  }

  void decoder_layer(bool moe) {
    if (config_.mla) {
      norm("input_layernorm.", "input_layernorm.", config_.hidden_size);
      latent_attention();
    } else {
      attention();
    }
    // TransformerEngine fuses the norm into the linear that follows, which a router is not.
    const std::string fused = "mlp.linear_fc1.layer_norm_";
    const std::string plain = "pre_mlp_layernorm.";
    norm(config_.mla ? plain : fused, engine_ && !moe ? fused : plain, config_.hidden_size);
    if (moe) {
      moe_mlp();
    } else {
      mlp("mlp", config_.ffn_hidden_size, config_.add_bias_linear);
    }
  }

  // The base class registers linear_proj before linear_qkv exists.
  void attention() {
    const std::int64_t heads = config_.num_attention_heads;
    const std::int64_t groups = config_.num_query_groups.value_or(heads);
    const std::int64_t width = config_.kv_channels.value_or(config_.hidden_size / heads);
    const std::string qkv_norm = "self_attention.linear_qkv.layer_norm_";
    if (!engine_) norm(qkv_norm, "input_layernorm.", config_.hidden_size);
    row_linear("self_attention.linear_proj", config_.hidden_size, checked_mul(heads, width),
               config_.add_bias_linear);
    if (engine_) norm(qkv_norm, qkv_norm, config_.hidden_size);
    const std::int64_t rows = checked_mul(checked_add(heads, checked_mul(2, groups)), width);
    column_linear("self_attention.linear_qkv", rows, config_.hidden_size,
                  config_.add_bias_linear || config_.add_qkv_bias);
    if (config_.qk_layernorm) {
      for (const std::string name :
           {"self_attention.q_layernorm.", "self_attention.k_layernorm."}) {
        norm(name, name, width);
      }
    }
  }

  void down_projection(const std::string& name, std::int64_t rows) {
    const bool duplicated = engine_ && version_ == MegatronVersion::V020;
    add(name + ".weight", {rows, config_.hidden_size}, duplicated ? -1 : 0);
  }

  void latent_attention() {
    const MlaConfig& mla = *config_.mla;
    const std::int64_t heads = config_.num_attention_heads;
    const std::int64_t query_rows =
        checked_mul(heads, checked_add(mla.qk_head_dim, mla.qk_pos_emb_head_dim));
    const std::string at = "self_attention.";
    const bool fused_norms = engine_ && config_.qk_layernorm;
    row_linear(at + "linear_proj", config_.hidden_size, checked_mul(heads, mla.v_head_dim),
               config_.add_bias_linear);
    if (mla.q_lora_rank) {
      down_projection(at + "linear_q_down_proj", *mla.q_lora_rank);
      if (fused_norms) {
        norm(at + "q_layernorm.", at + "linear_q_up_proj.layer_norm_", *mla.q_lora_rank);
      }
      column_linear(at + "linear_q_up_proj", query_rows, *mla.q_lora_rank, false);
    } else {
      column_linear(at + "linear_q_proj", query_rows, config_.hidden_size, false);
    }
    down_projection(at + "linear_kv_down_proj",
                    checked_add(mla.kv_lora_rank, mla.qk_pos_emb_head_dim));
    if (fused_norms) {
      norm(at + "kv_layernorm.", at + "linear_kv_up_proj.layer_norm_", mla.kv_lora_rank);
    }
    column_linear(at + "linear_kv_up_proj",
                  checked_mul(heads, checked_add(mla.qk_head_dim, mla.v_head_dim)),
                  mla.kv_lora_rank, false);
    if (config_.qk_layernorm && !engine_) {
      if (mla.q_lora_rank) norm(at + "q_layernorm.", at + "q_layernorm.", *mla.q_lora_rank);
      norm(at + "kv_layernorm.", at + "kv_layernorm.", mla.kv_lora_rank);
    }
  }

  void mlp(const std::string& name, std::int64_t ffn, bool bias) {
    if (gated_) {
      gated_column_linear(name + ".linear_fc1", ffn, config_.hidden_size, bias);
    } else {
      column_linear(name + ".linear_fc1", ffn, config_.hidden_size, bias);
    }
    row_linear(name + ".linear_fc2", config_.hidden_size, ffn, bias);
  }

  void moe_mlp() {
    const MoeConfig& moe = *config_.moe;
    add("mlp.router.weight", {moe.num_moe_experts, config_.hidden_size});
    if (config_.add_bias_linear && version_ == MegatronVersion::V020) {
      add("mlp.router.bias", {moe.num_moe_experts});
    }
    if (moe.moe_router_enable_expert_bias) {
      Tensor& bias = add("mlp.router.expert_bias", {moe.num_moe_experts});
      bias.dtype = Dtype::Float32;
      bias.buffer = true;
      bias.trainable = false;
    }
    const std::int64_t ffn = moe.moe_ffn_hidden_size.value_or(config_.ffn_hidden_size);
    if (gated_) {
      expert("fc1", "weight", {moe.num_moe_experts, 2, ffn, config_.hidden_size}, 2);
      if (config_.add_bias_linear) expert("fc1", "bias", {moe.num_moe_experts, 2, ffn}, 2);
    } else {
      expert("fc1", "weight", {moe.num_moe_experts, ffn, config_.hidden_size}, 1);
      if (config_.add_bias_linear) expert("fc1", "bias", {moe.num_moe_experts, ffn}, 1);
    }
    expert("fc2", "weight", {moe.num_moe_experts, config_.hidden_size, ffn}, 2);
    if (config_.add_bias_linear) {
      expert("fc2", "bias", {moe.num_moe_experts, config_.hidden_size}, -1);
    }
    if (moe.moe_shared_expert_intermediate_size) shared_experts();
  }

  // The gate is a parameter of the module itself, and PyTorch lists these before submodules'.
  void shared_experts() {
    if (config_.moe->moe_shared_expert_gate) {
      add("mlp.shared_experts.gate_weight", {1, config_.hidden_size});
    }
    mlp("mlp.shared_experts", *config_.moe->moe_shared_expert_intermediate_size, false);
  }

  void expert(const std::string& linear, const std::string& kind, Dims shape, int tp_axis) {
    Tensor& tensor = add("mlp.experts.experts.linear_" + linear + "." + kind, shape, tp_axis);
    tensor.expert_axis = 0;
    if (gated_ && linear == "fc1") tensor.block_axis = 1;
    switch (model_.expert_params) {
      case ExpertParams::Sequential:
        tensor.local_name = "mlp.experts.local_experts.{e}.linear_" + linear + "." + kind;
        break;
      case ExpertParams::PerLinear:
        tensor.local_name = "mlp.experts.linear_" + linear + "." + kind + "{e}";
        break;
      case ExpertParams::Fused: {
        // Both weights are stored transposed, expert by expert.
        const bool first = linear == "fc1";
        tensor.local_name = first ? "mlp.experts.weight1" : "mlp.experts.weight2";
        tensor.experts_fused = true;
        tensor.memory_order =
            shape.count == 4 ? std::vector<int>{0, 3, 1, 2} : std::vector<int>{0, 2, 1};
        break;
      }
    }
  }

  const TransformerConfig& config_;
  MegatronVersion version_;
  bool engine_;
  bool gated_;
  Model model_;
  std::string prefix_;
  StageRole role_ = StageRole::First;
  std::int32_t layer_ = -1;
};

}  // namespace

bool is_moe_layer(const TransformerConfig& config, std::int32_t layer) {
  if (!config.moe) return false;
  const MoeConfig& moe = *config.moe;
  if (!moe.moe_layer_pattern.empty()) {
    return moe.moe_layer_pattern[static_cast<std::size_t>(layer)];
  }
  return layer % moe.moe_layer_freq == 0;
}

Model build_transformer(const TransformerConfig& config, MegatronVersion version,
                        TransformerImpl impl) {
  check(config);
  Model model = Registrar(config, version, impl).build();
  validate(model);
  return model;
}

}  // namespace plan
