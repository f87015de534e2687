#include "libplan/model/builtin.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "libplan/base/error.h"
#include "tests/model/place.h"

namespace plan {
namespace {

std::int64_t buffer_elements(const Model& model) {
  std::int64_t sum = 0;
  for (const Tensor& tensor : model.tensors) {
    if (tensor.buffer) sum += num_elements(tensor.shape);
  }
  return sum;
}

std::string error_of(const std::string& json, const ModelOptions& options = {}) {
  try {
    parse_model(json, "m.json", "m", options);
  } catch (const Error& error) {
    return without_position(error.what());
  }
  return "no error";
}

// Totals of the models' safetensors files as their pages on Hugging Face show them (for Llama-2
// without the rotary tables that its files hold). DeepSeek-V3: its 671B main model without the
// MTP layer and without fp8 scales, where 58 layers have 256 correction biases each, which are
// buffers here.
TEST_CASE("built-in models have the published number of parameters") {
  struct Row {
    const char* name;
    std::int64_t parameters;
    std::int64_t buffers;
  };
  for (const Row& row :
       {Row{"llama-2-7b", 6'738'415'616, 0}, Row{"llama-2-70b", 68'976'648'192, 0},
        Row{"llama-3.1-70b", 70'553'706'496, 0}, Row{"qwen2.5-0.5b", 494'032'768, 0},
        Row{"mixtral-8x7b", 46'702'792'704, 0}, Row{"qwen3-30b-a3b", 30'532'122'624, 0},
        Row{"qwen3-235b-a22b", 235'093'634'560, 0},
        Row{"deepseek-v3", 671'026'419'200 - 58 * 256, 58 * 256}, Row{"tiny-llama", 300'608, 0}}) {
    for (const TransformerImpl impl :
         {TransformerImpl::Local, TransformerImpl::TransformerEngine}) {
      CAPTURE(row.name);
      ModelOptions options;
      options.transformer_impl = impl;
      const ModelInput input = read_model(row.name, options);
      CHECK(input.model.name == row.name);
      CHECK(num_parameters(input.model) == row.parameters);
      CHECK(buffer_elements(input.model) == row.buffers);
    }
  }
}

TEST_CASE("built-in models carry what their configs say") {
  CHECK(builtin_model_names() ==
        std::vector<std::string>{"deepseek-v3", "llama-2-70b", "llama-2-7b", "llama-3.1-70b",
                                 "mixtral-8x7b", "qwen2.5-0.5b", "qwen3-235b-a22b", "qwen3-30b-a3b",
                                 "tiny-llama", "tiny-moe", "tiny-qwen"});
  const ModelInput deepseek = read_model("deepseek-v3", {});
  CHECK(deepseek.mtp_num_layers == 1);
  CHECK_FALSE(deepseek.model.homogeneous_layers);
  CHECK(deepseek.model.expert_params == ExpertParams::PerLinear);
  CHECK_FALSE(is_moe_layer(*deepseek.config, 2));
  CHECK(is_moe_layer(*deepseek.config, 3));
  const ModelInput tiny = read_model("tiny-qwen", {});
  CHECK(tiny.model.tied_embeddings);
  CHECK(tiny.model.tensors.front().stage == StageRole::FirstAndLast);
  CHECK(tiny.model.tensors.back().name == "decoder.final_layernorm.weight");
  CHECK(read_model("qwen3-30b-a3b", {}).model.homogeneous_layers);
}

TEST_CASE("an origin gives back the model") {
  for (const std::string& name : builtin_model_names()) {
    ModelOptions options;
    options.megatron_version = MegatronVersion::V013;
    options.make_vocab_size_divisible_by = 64;
    const ModelInput input = read_model(name, options);
    const ModelInput again = parse_model(input.origin_json, "plan", "other", options);
    CHECK(again.model == input.model);
    CHECK(again.config == input.config);
    CHECK(again.origin_json == input.origin_json);
  }
}

TEST_CASE("the origin does not depend on how the file was written") {
  const std::string a = R"({"num_layers": 1, "hidden_size": 8, "num_attention_heads": 2,
      "vocab_size": 10, "position_embedding_type": "rope", "bf16": true})";
  const std::string b = R"({"bf16":true,"vocab_size":10,"num_attention_heads":2,"num_layers":1,
      "position_embedding_type":"rope","hidden_size":8})";
  CHECK(parse_model(a, "a", "m", {}).origin_json == parse_model(b, "b", "m", {}).origin_json);
  CHECK(parse_model(b, "b", "m", {}).origin_json ==
        R"({"format":"libplan-model-origin","version":1,"name":"m","content":{"bf16":true,)"
        R"("hidden_size":8,"num_attention_heads":2,"num_layers":1,)"
        R"("position_embedding_type":"rope","vocab_size":10}})");
}

TEST_CASE("files are told apart by content and named after themselves") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / "libplan_builtin_test_my-model";
  std::filesystem::create_directories(folder);
  const std::string config = R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2,
      "n_positions": 4, "vocab_size": 10})";
  for (const char* file : {"config.json", "small.config.json", "small.json"}) {
    std::ofstream(folder / file) << config;
  }
  CHECK(read_model((folder / "config.json").string(), {}).model.name ==
        "libplan_builtin_test_my-model");
  CHECK(read_model((folder / "small.config.json").string(), {}).model.name == "small");
  CHECK(read_model((folder / "small.json").string(), {}).model.name == "small");
  std::filesystem::remove_all(folder);
}

TEST_CASE("an unknown model name is unreadable and lists the known ones") {
  try {
    read_model("llama2-7b", {});
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::Unreadable);
    CHECK(std::string(error.what()) ==
          "llama2-7b: neither a file nor a built-in model (deepseek-v3, llama-2-70b, llama-2-7b, "
          "llama-3.1-70b, mixtral-8x7b, qwen2.5-0.5b, qwen3-235b-a22b, qwen3-30b-a3b, tiny-llama, "
          "tiny-moe, tiny-qwen); the nearest name is llama-2-7b");
  }
}

TEST_CASE("what is no model, and options that cannot be met, are refused") {
  CHECK(error_of("[]") == "m.json:: expected an object that describes a model, found a list");
  CHECK(error_of("{\"layers\": 3}") ==
        "m.json:: expected a Hugging Face config (\"model_type\"), Megatron "
        "arguments (\"num_layers\", \"hidden_size\", ...) or a model file (\"format\": "
        "\"libplan-model\"), found none of their keys");
  ModelOptions options;
  options.mtp_num_layers = 1;
  CHECK(error_of("{}", options) ==
        "multi-token prediction layers are not modelled: mtp_num_layers must be 0, found 1");
  CHECK(error_of(R"({"num_layers": 1, "hidden_size": 10, "num_attention_heads": 3,
      "vocab_size": 10, "position_embedding_type": "rope"})") ==
        "m.json:: without kv_channels, num_attention_heads must divide "
        "hidden_size (10), found 3");
  CHECK(
      error_of(R"({"format": "libplan-model-origin", "version": 2, "name": "", "content": {}})") ==
      "m.json:/version: expected 1 to 1, found 2");
}

}  // namespace
}  // namespace plan
