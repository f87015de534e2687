// Every layout case dumped from Megatron-Core: each chunk of each rank must hold the parameters
// that build_transformer lists, under the same local names, in the same order, with the same local
// shapes, checkpoint keys and global shapes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "libplan/base/checked.h"
#include "libplan/base/files.h"
#include "libplan/base/json_tree.h"
#include "libplan/model/transformer.h"

namespace plan {
namespace {

std::int64_t int_or(const JsonCursor& object, const char* key, std::int64_t fallback) {
  const std::optional<JsonCursor> value = object.find(key);
  return value ? value->as_int64(0, INT64_MAX) : fallback;
}

std::optional<std::int64_t> int_if(const JsonCursor& object, const char* key) {
  const std::optional<JsonCursor> value = object.find(key);
  if (!value) return std::nullopt;
  return value->as_int64(0, INT64_MAX);
}

TransformerConfig config_of(const JsonCursor& model) {
  TransformerConfig config;
  config.num_layers = static_cast<std::int32_t>(int_or(model, "num_layers", 0));
  config.hidden_size = int_or(model, "hidden_size", 0);
  config.num_attention_heads = int_or(model, "num_attention_heads", 0);
  config.num_query_groups = int_if(model, "num_query_groups");
  config.kv_channels = int_if(model, "kv_channels");
  config.ffn_hidden_size = int_or(model, "ffn_hidden_size", 0);
  config.vocab_size = int_or(model, "vocab_size", 0);
  config.make_vocab_size_divisible_by = int_or(model, "make_vocab_size_divisible_by", 0);
  config.max_position_embeddings = int_or(model, "max_pos", 0);
  config.gated_linear_unit = model.at("gated").as_bool();
  config.add_bias_linear = model.at("bias").as_bool();
  config.add_qkv_bias = model.at("qkv_bias").as_bool();
  config.untie_embeddings_and_output_weights = !model.at("tied").as_bool();
  config.qk_layernorm = model.at("qk_layernorm").as_bool();
  config.normalization =
      model.at("norm").as_string() == "RMSNorm" ? Normalization::RmsNorm : Normalization::LayerNorm;
  config.position_embedding_type = model.at("pos").as_string() == "rope"
                                       ? PositionEmbedding::Rope
                                       : PositionEmbedding::LearnedAbsolute;
  if (const std::optional<JsonCursor> moe = model.find("moe")) {
    config.moe.emplace();
    config.moe->num_moe_experts = static_cast<std::int32_t>(int_or(*moe, "num_experts", 0));
    config.moe->moe_ffn_hidden_size = int_if(*moe, "moe_ffn");
    config.moe->moe_layer_freq = static_cast<std::int32_t>(int_or(*moe, "layer_freq", 1));
    config.moe->moe_shared_expert_intermediate_size = int_if(*moe, "shared");
    config.moe->moe_grouped_gemm = moe->at("grouped").as_bool();
  }
  if (const std::optional<JsonCursor> mla = model.find("mla")) {
    config.mla =
        MlaConfig{int_if(*mla, "q_lora"), int_or(*mla, "kv_lora", 0), int_or(*mla, "qk_head", 0),
                  int_or(*mla, "qk_rope", 0), int_or(*mla, "v_head", 0)};
  }
  return config;
}

MegatronVersion version_of(const std::string& text) {
  if (text == "v0110") return MegatronVersion::V011;
  REQUIRE((text == "v0130" || text == "head"));
  return text == "v0130" ? MegatronVersion::V013 : MegatronVersion::V020;
}

// What both sides are brought to. The key has the global layer number; the global shape has no
// layer axis.
struct Parameter {
  std::string local_name;
  Dims local_shape;
  std::string key;
  Dims global_shape;
  friend bool operator==(const Parameter&, const Parameter&) = default;
};

std::ostream& operator<<(std::ostream& out, const Parameter& p) {
  return out << p.local_name << " " << to_string(p.local_shape) << " as " << p.key << " "
             << to_string(p.global_shape);
}

Dims dims_of(const JsonCursor& list) {
  Dims dims;
  for (const JsonCursor& extent : list.elements()) dims.push_back(extent.as_int64(0, INT64_MAX));
  return dims;
}

struct Sizes {
  std::int64_t tp, etp, ep, padding;
};

class Expected {
 public:
  Expected(const Model& model, Sizes sizes) : model_(model), sizes_(sizes) {}

  // The parameters of a chunk with these global layers.
  std::vector<Parameter> chunk(bool pre, bool post, const std::vector<std::int64_t>& layers) {
    list_.clear();
    for (const Tensor& tensor : model_.tensors) {
      if (pre && (tensor.stage == StageRole::First || tensor.stage == StageRole::FirstAndLast)) {
        add(tensor, tensor.local_name);
      }
    }
    for (std::size_t i = 0; i < layers.size(); ++i) {
      layer(layers[i], "decoder.layers." + std::to_string(i) + ".");
    }
    for (const Tensor& tensor : model_.tensors) {
      if (post && tensor.stage == StageRole::Last) add(tensor, tensor.local_name);
    }
    for (const Tensor& tensor : model_.tensors) {
      if (post && !pre && tensor.stage == StageRole::FirstAndLast) {
        add(tensor, "output_layer.weight");
      }
    }
    return list_;
  }

 private:
  void layer(std::int64_t number, const std::string& prefix) {
    std::vector<const Tensor*> experts;
    std::vector<const Tensor*> after;
    for (const Tensor& tensor : model_.tensors) {
      if (tensor.layer != number || tensor.buffer) continue;
      if (tensor.expert_axis >= 0) {
        experts.push_back(&tensor);
      } else if (!experts.empty()) {
        after.push_back(&tensor);
      } else {
        add(tensor, prefix + tensor.local_name);
      }
    }
    const bool fused = model_.expert_params == ExpertParams::Fused;
    const std::int64_t count = experts.empty() ? 0 : fused ? 1 : model_.num_experts / sizes_.ep;
    for (std::int64_t e = 0; e < count; ++e) {
      for (const Tensor* tensor : experts) {
        std::string name = tensor->local_name;
        const std::size_t at = name.find("{e}");
        if (at != std::string::npos) name.replace(at, 3, std::to_string(e));
        add(*tensor, prefix + name);
      }
    }
    for (const Tensor* tensor : after) add(*tensor, prefix + tensor->local_name);
  }

  void add(const Tensor& tensor, const std::string& local_name) {
    Tensor global = tensor;
    if (tensor.vocab_axis >= 0) {
      global.shape[tensor.vocab_axis] =
          ceil_to(tensor.shape[tensor.vocab_axis], sizes_.padding * sizes_.tp);
    }
    Tensor local = global;
    const std::int64_t cuts = tensor.expert_axis >= 0 ? sizes_.etp : sizes_.tp;
    if (tensor.tp_axis >= 0) {
      REQUIRE(local.shape[tensor.tp_axis] % cuts == 0);
      local.shape[tensor.tp_axis] /= cuts;
    }
    Dims shape = local.logical_shape();
    if (tensor.experts_fused) {
      // Nominal shapes of the legacy module: (hidden, experts * ffn) and (experts * ffn, hidden).
      const std::int64_t experts = model_.num_experts / sizes_.ep;
      shape = local_name.ends_with("weight1") ? Dims{shape[2], experts * shape[1]}
                                              : Dims{experts * shape[2], shape[1]};
    } else if (tensor.expert_axis >= 0) {
      Dims without;
      for (int axis = 1; axis < shape.count; ++axis) without.push_back(shape[axis]);
      shape = without;
    }
    list_.push_back({local_name, shape, tensor.name, global.logical_shape()});
  }

  const Model& model_;
  Sizes sizes_;
  std::vector<Parameter> list_;
};

struct Dumped {
  std::vector<Parameter> parameters;
  std::vector<std::int64_t> layers;  // global, in local order
  bool pre = false;
  bool post = false;
};

// Brings the dumped checkpoint view to the form of Parameter; notes the layer in `dumped`.
Parameter read_parameter(const JsonCursor& def, bool layer_axis, Dumped& dumped) {
  const std::string prefix = "decoder.layers.";
  Parameter parameter;
  parameter.local_name = def.at("name").as_string();
  parameter.local_shape = dims_of(def.at("shape"));
  CHECK(def.at("dtype").as_string() == "bfloat16");
  const JsonCursor shard = def.at("shards").elements().front();
  parameter.key = shard.at("key").as_string();
  parameter.global_shape = dims_of(shard.at("gs"));
  if (!parameter.key.starts_with(prefix)) return parameter;
  std::int64_t layer = 0;
  if (layer_axis) {
    layer = dims_of(shard.at("go"))[0];
    parameter.key.insert(prefix.size(), std::to_string(layer) + ".");
    Dims without;
    for (int axis = 1; axis < parameter.global_shape.count; ++axis) {
      without.push_back(parameter.global_shape[axis]);
    }
    parameter.global_shape = without;
  } else {
    layer = std::stoll(parameter.key.substr(prefix.size()));
  }
  const std::int64_t index = std::stoll(parameter.local_name.substr(prefix.size()));
  if (index == static_cast<std::int64_t>(dumped.layers.size())) dumped.layers.push_back(layer);
  CHECK(dumped.layers.at(static_cast<std::size_t>(index)) == layer);
  return parameter;
}

// The `singleton_local_shards` view saves gate and up as two tensors, each of one half.
void join_gate_and_up(Parameter& parameter) {
  if (!parameter.key.ends_with("_w")) return;
  parameter.key.resize(parameter.key.size() - 2);
  parameter.global_shape[0] *= 2;
}

Dumped read_chunk(const JsonCursor& chunk, const std::vector<JsonCursor>& defs, bool layer_axis) {
  Dumped dumped;
  for (const JsonCursor& row : chunk.at("params").elements()) {
    const auto index = static_cast<std::size_t>(row.elements()[0].as_int64(0, INT32_MAX));
    Parameter parameter = read_parameter(defs[index], layer_axis, dumped);
    join_gate_and_up(parameter);
    dumped.pre |= parameter.local_name == "embedding.word_embeddings.weight";
    dumped.post |= parameter.local_name == "decoder.final_layernorm.weight";
    dumped.parameters.push_back(std::move(parameter));
  }
  return dumped;
}

void check_case(const JsonCursor& root) {
  const JsonCursor strategy = root.at("strategy");
  const TransformerConfig config = config_of(root.at("model"));
  const Model model =
      build_transformer(config, version_of(root.at("ver").as_string()), TransformerImpl::Local);
  const std::int64_t tp = int_or(strategy, "tp", 1);
  Expected expected(model, {tp, int_or(strategy, "etp", tp), int_or(strategy, "ep", 1),
                            config.make_vocab_size_divisible_by});
  const bool layer_axis = !root.find("metadata") && model.homogeneous_layers;
  const std::vector<JsonCursor> defs = root.at("param_defs").elements();
  for (const JsonCursor& rank : root.at("ranks").elements()) {
    CAPTURE(rank.at("rank").as_int64(0, INT32_MAX));
    for (const JsonCursor& chunk : rank.at("chunks").elements()) {
      CAPTURE(chunk.pointer());
      const Dumped dumped = read_chunk(chunk, defs, layer_axis);
      const std::vector<Parameter> ours = expected.chunk(dumped.pre, dumped.post, dumped.layers);
      REQUIRE(ours.size() == dumped.parameters.size());
      for (std::size_t i = 0; i < ours.size(); ++i) {
        if (!(ours[i] == dumped.parameters[i])) CHECK(ours[i] == dumped.parameters[i]);
      }
    }
  }
}

TEST_CASE("each chunk of each dumped layout holds the model's tensors in its order") {
  int cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(GOLDEN_MEGATRON_DIR)) {
    const std::string path = entry.path().string();
    const std::string file = entry.path().filename().string();
    if (!file.starts_with("dense_") && !file.starts_with("moe_") && !file.starts_with("mla_")) {
      continue;
    }
    INFO(file);
    ++cases;
    const JsonDocument document = parse_json(read_file(path), file);
    check_case(JsonCursor::root(document));
  }
  CHECK(cases == 44);
}

}  // namespace
}  // namespace plan
