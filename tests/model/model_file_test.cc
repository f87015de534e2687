#include "libplan/model/model_file.h"

#include <catch2/catch.hpp>

#include "libplan/base/error.h"
#include "libplan/model/builtin.h"
#include "tests/model/place.h"

namespace plan {
namespace {

ModelFile read(const std::string& text) {
  const JsonDocument document = parse_json(text, "m.json");
  return read_model_file(JsonCursor::root(document));
}

std::string with_tensors(const std::string& tensors) {
  return "{\"format\": \"libplan-model\", \"version\": 1, \"name\": \"m\", \"num_layers\": 2, "
         "\"num_experts\": 4, \"tensors\": [\n" +
         tensors + "]}";
}

std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    return without_position(error.what());
  }
  return "no error";
}

TEST_CASE("logical shapes and axes become canonical") {
  const Model model = read(with_tensors(R"(
    {"name": "a", "shape": [4, 96, 64], "dtype": "bf16", "expert_axis": 0,
     "tp": {"axis": 1, "blocks": 2}, "layer": 1, "local_name": "w1", "experts_fused": true,
     "memory_order": [0, 3, 1, 2]},
    {"name": "b", "shape": [10, 8, 3], "dtype": "fp32", "tp": {"axis": 0, "blocks": 5},
     "vocab_axis": 2, "stage": "last"},
    {"name": "scalar", "shape": [], "dtype": "int64", "stage": "every", "buffer": true,
     "trainable": false},
    {"name": "nothing", "shape": [0, 8], "dtype": "fp8", "stage": "last", "tp": {"axis": 0}})"))
                          .model;
  const Tensor& a = model.tensors[0];
  CHECK(a.shape == Dims{4, 2, 48, 64});
  CHECK(a.expert_axis == 0);
  CHECK(a.block_axis == 1);
  CHECK(a.tp_axis == 2);
  CHECK(a.layer == 1);
  CHECK(a.logical_shape() == Dims{4, 96, 64});
  const Tensor& b = model.tensors[1];
  CHECK(b.shape == Dims{5, 2, 8, 3});
  CHECK(b.tp_axis == 1);
  CHECK(b.vocab_axis == 3);
  CHECK(b.stage == StageRole::Last);
  CHECK(b.layer == -1);
  CHECK(model.tensors[2].shape == Dims{});
  CHECK(model.tensors[2].buffer);
  CHECK_FALSE(model.tensors[2].trainable);
  CHECK(model.tensors[3].shape == Dims{0, 8});
  CHECK(model.tensors[3].dtype == Dtype::Float8E4M3);
}

TEST_CASE("repeated records are expanded layer by layer") {
  const Model model = read(with_tensors(R"(
    {"name": "in", "shape": [2], "dtype": "bf16", "stage": "first"},
    {"name": "l.{i}.a", "shape": [2], "dtype": "bf16", "repeat": 2, "local_name": "a"},
    {"name": "l.{i}.b", "shape": [2], "dtype": "bf16", "repeat": 2},
    {"name": "l.{i}.c", "shape": [2], "dtype": "bf16", "layer": 1, "repeat": 1})"))
                          .model;
  std::string text;
  for (const Tensor& tensor : model.tensors) {
    text += tensor.name + "@" + std::to_string(tensor.layer) + " ";
  }
  CHECK(text == "in@-1 l.0.a@0 l.0.b@0 l.1.a@1 l.1.b@1 l.1.c@1 ");
  CHECK(model.tensors[3].local_name == "a");
}

TEST_CASE("kinds of state are an open set") {
  std::string text = with_tensors("");
  text.insert(text.size() - 1, R"(, "state_kinds": [{"name": "ema", "dtype": "bf16",
      "follows": "param", "memory": "host"}, {"name": "momentum"}])");
  const ModelFile file = read(text);
  CHECK(file.state_kinds ==
        std::vector<StateKind>{
            {"ema", Dtype::BFloat16, StateFollows::Param, MemoryKind::Host},
            {"momentum", std::nullopt, StateFollows::MainParam, MemoryKind::Device}});
  CHECK(read(to_json(file)) == file);
}

TEST_CASE("what is written is read back equal, for every built-in model") {
  for (const std::string& name : builtin_model_names()) {
    for (const bool fused : {false, true}) {
      ModelOptions options;
      if (fused) {
        options.megatron_version = MegatronVersion::V013;
        options.transformer_impl = TransformerImpl::Local;
      }
      ModelInput input = read_model(name, options);
      if (fused && input.config->moe) {
        input.config->moe->moe_grouped_gemm = true;
        input.model =
            build_transformer(*input.config, MegatronVersion::V013, TransformerImpl::Local);
        CHECK(input.model.expert_params == ExpertParams::Fused);
      }
      const ModelFile file{input.model, {}};
      const std::string text = to_json(file);
      CHECK(read(text) == file);
      CHECK(to_json(read(text)) == text);
      const ModelInput again = parse_model(text, "m.json", "", {});
      CHECK(again.model == input.model);
      CHECK_FALSE(again.config);
      CHECK(parse_model(again.origin_json, "plan", "", {}).model == input.model);
    }
  }
}

TEST_CASE("each broken rule of a tensor is refused at its place") {
  const std::string base = R"("name": "a", "shape": [6, 8], "dtype": "bf16", "stage": "first")";
  for (
      const auto& [tensors, expected] : std::vector<std::pair<std::string, std::string>>{
          {R"({"shape": [2], "dtype": "bf16", "stage": "first"})",
           "m.json:/tensors/0: required key \"name\" is missing"},
          {R"({"name": "", "shape": [2], "dtype": "bf16", "stage": "first"})",
           "m.json:/tensors/0/name: a tensor needs a name"},
          {R"({"name": "a", "shape": [2], "dtype": "bf16", "stage": "first", "tp_axis": 0})",
           "m.json:/tensors/0/tp_axis: unknown key \"tp_axis\""},
          {R"({"name": "a", "shape": [-1], "dtype": "bf16", "stage": "first"})",
           "m.json:/tensors/0/shape/0: expected 0 to 9223372036854775807, "
           "found -1"},
          {R"({"name": "a", "shape": [2.0], "dtype": "bf16", "stage": "first"})",
           "m.json:/tensors/0/shape/0: expected an integer, found 2.0"},
          {R"({"name": "a", "shape": [1,1,1,1,1,1,1], "dtype": "bf16", "stage": "first"})",
           "m.json:/tensors/0/shape: expected at most 6 extents, found 7"},
          {R"({"name": "a", "shape": [2,1,1,1,1,1], "dtype": "bf16", "stage": "first",
              "tp": {"axis": 0, "blocks": 2}})",
           "m.json:/tensors/0/shape: expected at most 5 extents with blocks, "
           "found 6"},
          {R"({"name": "a", "shape": [4611686018427387904, 4], "dtype": "bf16", "stage": "first"})",
           "m.json:/tensors/0: shape [4611686018427387904, 4] is too large: "},
          {R"({"name": "a", "shape": [2], "dtype": "bf17", "stage": "first"})",
           "m.json:/tensors/0/dtype: expected a dtype such as bf16, fp32 or "
           "fp8_e4m3, found the string \"bf17\""},
          {"{" + base + R"(, "tp": {"axis": 2}})",
           "m.json:/tensors/0/tp/axis: expected 0 to 1, found 2"},
          {"{" + base + R"(, "tp": {"axis": 0, "blocks": 4}})",
           "m.json:/tensors/0/tp/blocks: blocks must divide extent 6 of axis "
           "0, found 4"},
          {"{" + base + R"(, "tp": {"axis": 0}, "expert_axis": 0})",
           "m.json:/tensors/0/expert_axis: axis 0 is already cut in another "
           "way"},
          {"{" + base + R"(, "tp": {"axis": 0, "blocks": 2}, "vocab_axis": 0})",
           "m.json:/tensors/0/vocab_axis: axis 0 is already cut in another "
           "way"},
          {"{" + base + R"(, "expert_axis": 0})",
           "m.json:/tensors/0: the expert axis must have num_experts = 4 "
           "entries, found 6"},
          {"{" + base + R"(, "experts_fused": true})",
           "m.json:/tensors/0: experts_fused needs an expert axis"},
          {"{" + base + R"(, "local_name": "a{e}"})",
           "m.json:/tensors/0: {e} in local_name needs an expert axis"},
          {R"({"name": "a", "shape": [4], "dtype": "bf16", "stage": "first", "expert_axis": 0,
              "local_name": "a"})",
           "m.json:/tensors/0: local_name of experts must contain {e}"},
          {"{" + base + R"(, "memory_order": [0, 0]})",
           "m.json:/tensors/0: memory_order must name each of the 2 axes of "
           "[6, 8] once"},
          {R"({"name": "a", "shape": [], "dtype": "bf16", "stage": "first", "vocab_axis": 0})",
           "m.json:/tensors/0/vocab_axis: a scalar has no axis"},
          {R"({"name": "a", "shape": [2], "dtype": "bf16"})",
           "m.json:/tensors/0: required key \"stage\" or \"layer\" is missing"},
          {R"({"name": "a", "shape": [2], "dtype": "bf16", "stage": "layer"})",
           "m.json:/tensors/0: required key \"layer\" is missing"},
          {R"({"name": "a", "shape": [2], "dtype": "bf16", "stage": "middle"})",
           "m.json:/tensors/0/stage: expected one of first, layer, last, "
           "first_and_last, every, found the string \"middle\""},
          {"{" + base + R"(, "layer": 0})",
           "m.json:/tensors/0/layer: only a tensor of stage \"layer\" has a "
           "layer"},
          {R"({"name": "a", "shape": [2], "dtype": "bf16", "layer": 2})",
           "m.json:/tensors/0: layers must be among the 2 layers, counted from "
           "0, found layer 2"},
          {R"({"name": "a", "shape": [2], "dtype": "bf16", "repeat": 2})",
           "m.json:/tensors/0/name: the name of a repeated tensor must hold "
           "{i}, found \"a\""},
          {R"({"name": "a{i}", "shape": [2], "dtype": "bf16", "repeat": 2147483647})",
           "m.json:/tensors/0: a model has at most 4194304 tensors, found "
           "2147483647"},
          {"{" + base + "},\n{" + base + "}", "m.json:/tensors/1: two tensors are named a"},
          {R"({"name": "z", "shape": [2], "dtype": "bf16", "stage": "last"},)"
           "\n{" +
               base + "}",
           "m.json:/tensors/1: tensors must stand in registration order "
           "(first, layers ascending, last), found one that belongs before the one above it"},
          {R"({"name": "a.{i}", "shape": [2], "dtype": "bf16", "repeat": 2},
{"name": "b.{i}", "shape": [2], "dtype": "bf16", "layer": 0, "repeat": 1})",
           "m.json:/tensors/1: tensors must stand in registration order "
           "(first, layers ascending, last), found one that belongs before the one above it"},
      }) {
    CHECK_THAT(error_of(with_tensors(tensors)), Catch::StartsWith(expected));
  }
}

TEST_CASE("each broken rule of the header and of kinds of state is refused at its place") {
  const std::string rest = R"("name": "m", "num_layers": 2, "tensors": [])";
  const std::string head = R"({"format": "libplan-model", "version": 1, )";
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {R"({"format": "other", "version": 1, )" + rest + "}",
            "m.json:/format: expected \"libplan-model\", found the string "
            "\"other\""},
           {R"({"format": "libplan-model", "version": 2, )" + rest + "}",
            "m.json:/version: expected version 1, found 2"},
           {head + rest + R"(, "layers": 3})", "m.json:/layers: unknown key \"layers\""},
           {head + R"("name": "m", "tensors": []})",
            "m.json:: required key \"num_layers\" is missing"},
           {head + rest + R"(, "expert_params": "none"})",
            "m.json:/expert_params: expected one of sequential, per_linear, "
            "fused, found the string \"none\""},
           {head + rest + R"(, "make_vocab_size_divisible_by": 0})",
            "m.json:/make_vocab_size_divisible_by: expected 1 to "
            "9223372036854775807, found 0"},
           {head + rest + R"(, "state_kinds": [{"name": "a"}, {"name": "a"}]})",
            "m.json:/state_kinds/1/name: two kinds of state are named a"},
           {head + rest + R"(, "state_kinds": [{"name": ""}]})",
            "m.json:/state_kinds/0/name: a kind of state needs a name"},
           {head + rest + R"(, "state_kinds": [{"name": "a", "memory": "gpu"}]})",
            "m.json:/state_kinds/0/memory: expected one of device, host, "
            "file, found the string \"gpu\""},
       }) {
    CHECK(error_of(text) == expected);
  }
}

}  // namespace
}  // namespace plan
