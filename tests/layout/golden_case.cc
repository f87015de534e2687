#include "tests/layout/golden_case.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "libplan/base/error.h"
#include "libplan/base/files.h"
#include "libplan/strategy/pipeline_layout.h"

namespace plan {
namespace {

std::optional<std::int64_t> int_if(const JsonCursor& object, const char* key) {
  const std::optional<JsonCursor> value = object.find(key);
  if (!value) return std::nullopt;
  return value->as_int64(0, INT64_MAX);
}

std::int64_t int_at(const JsonCursor& object, const char* key) {
  return object.at(key).as_int64(0, INT64_MAX);
}

std::optional<std::int32_t> size_if(const JsonCursor& object, const char* key) {
  const std::optional<JsonCursor> value = object.find(key);
  if (!value) return std::nullopt;
  return value->as_int32(0, INT32_MAX);
}

void read_moe_and_mla(const JsonCursor& model, TransformerConfig& config) {
  if (const std::optional<JsonCursor> moe = model.find("moe")) {
    config.moe.emplace();
    config.moe->num_moe_experts = moe->at("num_experts").as_int32(1, INT32_MAX);
    config.moe->moe_ffn_hidden_size = int_if(*moe, "moe_ffn");
    config.moe->moe_layer_freq = moe->at("layer_freq").as_int32(1, INT32_MAX);
    config.moe->moe_shared_expert_intermediate_size = int_if(*moe, "shared");
    config.moe->moe_grouped_gemm = moe->at("grouped").as_bool();
  }
  if (const std::optional<JsonCursor> mla = model.find("mla")) {
    config.mla = MlaConfig{int_if(*mla, "q_lora"), int_at(*mla, "kv_lora"), int_at(*mla, "qk_head"),
                           int_at(*mla, "qk_rope"), int_at(*mla, "v_head")};
  }
}

TransformerConfig read_config(const JsonCursor& model) {
  TransformerConfig config;
  config.num_layers = model.at("num_layers").as_int32(1, INT32_MAX);
  config.hidden_size = int_at(model, "hidden_size");
  config.num_attention_heads = int_at(model, "num_attention_heads");
  config.num_query_groups = int_if(model, "num_query_groups");
  config.kv_channels = int_if(model, "kv_channels");
  config.ffn_hidden_size = int_at(model, "ffn_hidden_size");
  config.vocab_size = int_at(model, "vocab_size");
  config.make_vocab_size_divisible_by = int_at(model, "make_vocab_size_divisible_by");
  config.max_position_embeddings = int_at(model, "max_pos");
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
  read_moe_and_mla(model, config);
  return config;
}

Strategy read_strategy(const JsonCursor& root) {
  const JsonCursor sizes = root.at("strategy");
  const auto size = [&](const char* key) { return sizes.at(key).as_int32(1, INT32_MAX); };
  Strategy strategy;
  strategy.world_size = root.at("world").as_int32(1, INT32_MAX);
  strategy.tensor_model_parallel_size = size("tp");
  strategy.pipeline_model_parallel_size = size("pp");
  strategy.context_parallel_size = size("cp");
  strategy.expert_model_parallel_size = size("ep");
  strategy.expert_tensor_parallel_size = size_if(sizes, "etp");
  strategy.virtual_pipeline_model_parallel_size = size_if(sizes, "vpp");
  strategy.num_distributed_optimizer_instances = size("ndo");
  strategy.order = sizes.at("order").as_string();
  strategy.num_layers_in_first_pipeline_stage = size_if(sizes, "first");
  strategy.num_layers_in_last_pipeline_stage = size_if(sizes, "last");
  strategy.account_for_embedding_in_pipeline_split = sizes.at("acct_emb").as_bool();
  strategy.account_for_loss_in_pipeline_split = sizes.at("acct_loss").as_bool();
  if (const std::optional<JsonCursor> layout = sizes.find("pp_layout")) {
    strategy.pipeline_model_parallel_layout =
        std::get<std::vector<std::string>>(expand_pipeline_layout(layout->node()));
  }
  return strategy;
}

MegatronOptions read_options(const JsonCursor& root) {
  const JsonCursor ddp = root.at("ddp");
  const std::string& version = root.at("ver").as_string();
  MegatronOptions options;
  options.version = version == "v0110"   ? MegatronVersion::V011
                    : version == "v0130" ? MegatronVersion::V013
                                         : MegatronVersion::V020;
  options.overlap_grad_reduce = ddp.at("overlap_grad_reduce").as_bool();
  options.ddp_bucket_size = int_if(ddp, "bucket_size");
  options.ddp_pad_buckets_for_high_nccl_busbw = ddp.at("pad_buckets_for_high_nccl_busbw").as_bool();
  options.accumulate_allreduce_grads_in_fp32 = ddp.at("grad_reduce_in_fp32").as_bool();
  return options;
}

CheckpointOptions read_metadata(const JsonCursor& root) {
  CheckpointOptions options;
  if (const std::optional<JsonCursor> metadata = root.find("metadata")) {
    metadata->expect_object({"non_homogeneous_layers", "singleton_local_shards"});
    const auto flag = [&](const char* key) {
      const std::optional<JsonCursor> value = metadata->find(key);
      return value && value->as_bool();
    };
    options.non_homogeneous_layers = flag("non_homogeneous_layers");
    options.singleton_local_shards = flag("singleton_local_shards");
  }
  return options;
}

}  // namespace

std::string test_folder() {
  const char* folder = std::getenv("PLAN_TEST_DATA");
  return folder == nullptr ? "tests" : folder;
}

std::vector<std::string> golden_case_names() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(test_folder() + "/golden/megatron")) {
    const std::string name = entry.path().stem().string();
    const bool layout =
        name.starts_with("dense_") || name.starts_with("moe_") || name.starts_with("mla_");
    if (layout && entry.path().extension() == ".json") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

GoldenCase read_golden_case(const std::string& name) {
  const std::string path = test_folder() + "/golden/megatron/" + name + ".json";
  GoldenCase golden;
  golden.name = name;
  golden.document = parse_json(read_file(path), path);
  const JsonCursor root = golden.root();
  PLAN_CHECK(root.at("case").as_string() == name);
  golden.strategy = read_strategy(root);
  golden.options = read_options(root);
  golden.checkpoint = read_metadata(root);
  golden.model = build_transformer(read_config(root.at("model")), golden.options.version,
                                   TransformerImpl::Local);
  return golden;
}

std::vector<std::int64_t> read_integers(const JsonCursor& list) {
  std::vector<std::int64_t> values;
  for (const JsonCursor& value : list.elements()) values.push_back(value.as_int64(0, INT64_MAX));
  return values;
}

std::vector<StateKind> state_kinds(const std::vector<std::string>& names) {
  std::vector<StateKind> kinds;
  for (const std::string& name : names) kinds.push_back(builtin_state_kind(name).value());
  return kinds;
}

}  // namespace plan
