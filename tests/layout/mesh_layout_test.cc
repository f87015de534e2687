#include "libplan/layout/mesh_layout.h"

#include <catch2/catch.hpp>

#include "libplan/base/error.h"
#include "libplan/layout/megatron.h"
#include "tests/layout/flat_content.h"

namespace plan {
namespace {

Tensor tensor_of(const std::string& name, const Dims& shape) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = shape;
  tensor.layer = 0;
  return tensor;
}

// A gated projection, one for experts, a vector, a scalar, a frozen matrix and a buffer.
Model mixed_model() {
  Model model;
  model.num_layers = 1;
  model.num_experts = 3;
  Tensor gated = tensor_of("layers.0.fc1.weight", {2, 5, 3});
  gated.block_axis = 0;
  gated.tp_axis = 1;
  Tensor experts = tensor_of("layers.0.experts.fc1.weight", {3, 2, 5, 2});
  experts.expert_axis = 0;
  experts.block_axis = 1;
  experts.tp_axis = 2;
  Tensor frozen = tensor_of("layers.0.frozen.weight", {4, 3});
  frozen.trainable = false;
  Tensor bias = tensor_of("layers.0.expert_bias", {3});
  bias.buffer = true;
  bias.dtype = Dtype::Float32;
  model.tensors = {
      gated,  experts, tensor_of("layers.0.norm.weight", {7}), tensor_of("layers.0.scale", {}),
      frozen, bias};
  return model;
}

std::vector<StateKind> adam_states() {
  return {*builtin_state_kind("main_param"), *builtin_state_kind("exp_avg"),
          *builtin_state_kind("exp_avg_sq")};
}

Strategy mesh_of(std::vector<MeshAxis> axes, const std::string& placements) {
  Strategy strategy;
  strategy.name = "m";
  strategy.world_size = 1;
  for (const MeshAxis& axis : axes) strategy.world_size *= axis.size;
  strategy.mesh = std::move(axes);
  strategy.placements_json = placements;
  return strategy;
}

const Storage* storage_of(const DeviceShards& device, const std::string& key) {
  for (const Storage& storage : device.storages) {
    if (storage.key == key) return &storage;
  }
  return nullptr;
}

TEST_CASE("every member's storages hold its DTensors' local tensors") {
  const Model model = mixed_model();
  const Strategy strategy =
      mesh_of({{"a", 3}, {"b", 2}}, R"json({"*": ["S(0)", "R"], "*.fc1.weight": ["S(0)", "S(1)"],
        "layers.0.fc1.weight": ["SS(0,2)", "S(-1)"], "layers.0.scale": ["R", "R"]})json");
  const Layout layout = mesh_layout(model, strategy, adam_states());
  validate(layout);
  CHECK(layout.notices.empty());
  const std::vector<std::vector<const char*>> texts{{"SS(0,2)", "S(1)"}, {"S(0)", "S(1)"},
                                                    {"S(0)", "R"},       {"R", "R"},
                                                    {"S(0)", "R"},       {"S(0)", "R"}};
  REQUIRE(layout.devices.size() == 6);
  for (std::int32_t position = 0; position < 6; ++position) {
    for (std::size_t i = 0; i < model.tensors.size(); ++i) {
      const Tensor& tensor = model.tensors[i];
      CAPTURE(position, tensor.name);
      std::vector<Placement> placements;
      for (const char* text : texts[i]) placements.push_back(parse_placement(text, ""));
      const LocalContent content =
          dtensor_content(tensor.logical_shape(), {3, 2}, placements, {position / 2, position % 2});
      const Storage* storage =
          storage_of(layout.devices[static_cast<std::size_t>(position)], tensor.name);
      CHECK((storage == nullptr) == content.empty());
      if (storage == nullptr) continue;
      CHECK(test::flat_of(layout, *storage) == test::flat_of(tensor.logical_shape(), content));
      CHECK(storage->lanes.size() == (tensor.trainable && !tensor.buffer ? 3 : 1));
    }
  }
  // Rows 2-3 of gate, and rows 8-9 (3-4 of up): two boxes, none over the border.
  CHECK(storage_of(layout.devices[2], "layers.0.fc1.weight")->shards.size() == 2);
}

TEST_CASE("a run over the border of gate and up becomes boxes of each") {
  Model model;
  model.num_layers = 1;
  model.tensors = {tensor_of("w", {3, 4, 2})};
  model.tensors[0].block_axis = 0;
  model.tensors[0].tp_axis = 1;
  // 12 rows over 1: one box; SS(0,1) of 2: rows 0-5 and 6-11.
  const Layout halves = mesh_layout(model, mesh_of({{"a", 2}}, R"json({"w": ["S(0)"]})json"), {});
  CHECK(halves.devices[0].storages.empty());  // no state asked for, none forced
  const Layout layout =
      mesh_layout(model, mesh_of({{"a", 2}}, R"json({"w": ["S(0)"]})json"), adam_states());
  const std::vector<Shard>& first = layout.devices[0].storages.at(0).shards;
  REQUIRE(first.size() == 2);
  CHECK(first[0].box == Box{{0, 1}, {0, 4}, {0, 2}});
  CHECK(first[1].box == Box{{1, 2}, {0, 2}, {0, 2}});
  CHECK(first[1].offset_elems == 8);
  CHECK(mesh_layout(model, mesh_of({{"a", 1}}, R"json({"w": ["S(0)"]})json"), adam_states())
            .devices[0]
            .storages.at(0)
            .shards.size() == 1);
}

TEST_CASE("ranks name the devices; FSDP2 counts them in ascending order") {
  Model model;
  model.num_layers = 1;
  model.tensors = {tensor_of("w", {7})};
  Strategy strategy = mesh_of({{"dp", 3}}, R"json({"*": ["S(0)"]})json");
  strategy.ranks = {DeviceId(6), DeviceId(2), DeviceId(4)};
  const auto first_index = [&](const Layout& layout, std::size_t device) {
    return layout.devices.at(device).storages.at(0).shards.at(0).box[0].begin;
  };
  const Layout by_coordinate = mesh_layout(model, strategy, adam_states());
  CHECK(by_coordinate.devices[0].device == DeviceId(2));
  CHECK(first_index(by_coordinate, 0) == 3);
  CHECK(first_index(by_coordinate, 2) == 0);
  REQUIRE(by_coordinate.notices.size() == 1);
  CHECK_THAT(by_coordinate.notices[0],
             Catch::Contains("mesh axis \"dp\"") && Catch::Contains("by mesh coordinate"));
  strategy.use_torch_fsdp2 = true;
  const Layout sorted = mesh_layout(model, strategy, adam_states());
  CHECK(first_index(sorted, 0) == 0);
  CHECK(first_index(sorted, 2) == 6);
  CHECK_THAT(sorted.notices.at(0), Catch::Contains("by ascending rank"));
  strategy.placements_json = R"json({"*": ["R"]})json";
  CHECK(mesh_layout(model, strategy, adam_states()).notices.empty());
}

TEST_CASE("the most particular pattern counts") {
  Model model;
  model.num_layers = 1;
  for (const char* name : {"a.b.c", "a.b", "x"}) model.tensors.push_back(tensor_of(name, {4, 4}));
  const Layout layout = mesh_layout(
      model,
      mesh_of({{"m", 2}},
              R"json({"*": ["R"], "a*": ["S(0)"], "a.b": ["S(1)"], "*.b.*": ["S(1)"]})json"),
      adam_states());
  const DeviceShards& device = layout.devices[0];
  CHECK(storage_of(device, "a.b.c")->shards[0].box == Box{{0, 4}, {0, 2}});
  CHECK(storage_of(device, "a.b")->shards[0].box == Box{{0, 4}, {0, 2}});
  CHECK(storage_of(device, "x")->shards[0].box == Box{{0, 4}, {0, 4}});
}

TEST_CASE("refusals name the tensor or the pattern") {
  Model model;
  model.num_layers = 1;
  model.tensors = {tensor_of("w.weight", {4, 4}), tensor_of("w.scale", {})};
  struct Row {
    std::string placements;
    std::string message;
  };
  const std::vector<Row> table{
      {"", "placements of strategy \"m\": expected an object"},
      {R"json({"w.weight": ["R"]})json", "tensor w.scale: expected placements for each tensor"},
      {R"json({"*": ["S(0)"]})json", "tensor w.scale: mesh axis 0: expected a dimension"},
      {R"json({"*": ["P(sum)"]})json", "tensor w.weight: mesh axis 0: expected a Shard"},
      {R"json({"*": ["P(sum)"]})json", "found Partial with reduce op sum"},
      {R"json({"*": ["R", "R"]})json", "tensor w.weight: expected 1 placements"},
      {R"json({"*": ["Shard(0)"]})json", "strategy \"m\":/*/0: expected a placement"},
      {R"json({"*": ["R"], "w.wieght": ["R"]})json", "the nearest name is \"w.weight\""},
      {R"json({"*": "R"})json", "expected a list"},
      {R"json({"*": [0]})json", "expected a string"},
  };
  for (const Row& row : table) {
    CAPTURE(row.placements);
    CHECK_THROWS_WITH(mesh_layout(model, mesh_of({{"m", 2}}, row.placements), adam_states()),
                      Catch::Contains(row.message));
  }
  Strategy mixed = mesh_of({{"m", 2}}, R"json({"*": ["R"]})json");
  mixed.tensor_model_parallel_size = 2;
  CHECK_THROWS_WITH(mesh_layout(model, mixed, adam_states()),
                    Catch::Contains("expected no tensor_model_parallel_size beside a mesh"));
}

Model row_model() {
  Model model;
  model.num_layers = 1;
  model.make_vocab_size_divisible_by = 8;
  Tensor words = tensor_of("embedding.weight", {5, 2});
  words.stage = StageRole::First;
  words.layer = -1;
  words.tp_axis = 0;
  words.vocab_axis = 0;
  Tensor gated = tensor_of("decoder.layers.0.fc1.weight", {2, 3, 2});
  gated.block_axis = 0;
  gated.tp_axis = 1;
  model.tensors = {words, gated};
  return model;
}

// Boxes of a storage on a device, by tensor.
std::vector<std::string> boxes(const Layout& layout, std::size_t device, std::size_t storage) {
  std::vector<std::string> texts;
  for (const Shard& shard : layout.devices.at(device).storages.at(storage).shards) {
    texts.push_back(layout.tensors[static_cast<std::size_t>(shard.tensor.value)].name + " " +
                    to_string(shard.box));
  }
  return texts;
}

TEST_CASE("Megatron with torch FSDP2 cuts rows by ceil over the dp-cp group") {
  Strategy strategy;
  strategy.world_size = 4;
  strategy.use_torch_fsdp2 = true;
  const Layout layout = megatron_layout(row_model(), strategy, {}, adam_states());
  validate(layout);
  using Texts = std::vector<std::string>;
  // 8 padded rows, two each.
  CHECK(boxes(layout, 2, 0) ==
        Texts{"embedding.weight [4, 5) x [0, 2)", "embedding.weight.padding [0, 1) x [0, 2)"});
  CHECK(boxes(layout, 3, 0) == Texts{"embedding.weight.padding [1, 3) x [0, 2)"});
  // 6 rows of gate and up, 2 each: the last rank has none.
  CHECK(boxes(layout, 0, 1) == Texts{"decoder.layers.0.fc1.weight [0, 1) x [0, 2) x [0, 2)"});
  CHECK(boxes(layout, 1, 1) == Texts{"decoder.layers.0.fc1.weight [0, 1) x [2, 3) x [0, 2)",
                                     "decoder.layers.0.fc1.weight [1, 2) x [0, 1) x [0, 2)"});
  CHECK(layout.devices[3].storages.size() == 1);
  CHECK(layout.devices[0].storages[0].lanes.size() == 3);

  strategy.world_size = 6;
  strategy.tensor_model_parallel_size = 3;
  const Layout tensor_parallel = megatron_layout(row_model(), strategy, {}, adam_states());
  CHECK(boxes(tensor_parallel, 4, 1) ==
        Texts{"decoder.layers.0.fc1.weight [1, 2) x [1, 2) x [0, 2)"});
}

TEST_CASE("what fully_shard cannot do over Megatron's dp-cp group is refused") {
  Strategy strategy;
  strategy.world_size = 4;
  strategy.use_torch_fsdp2 = true;
  strategy.num_distributed_optimizer_instances = 2;
  CHECK_THROWS_WITH(megatron_layout(row_model(), strategy, {}, adam_states()),
                    Catch::Contains("use_torch_fsdp2 needs num_distributed_optimizer_instances 1"));
  strategy.num_distributed_optimizer_instances = 1;
  strategy.expert_model_parallel_size = 2;
  CHECK_THROWS_WITH(megatron_layout(row_model(), strategy, {}, adam_states()),
                    Catch::Contains("needs expert_model_parallel_size 1, found 2"));
}

}  // namespace
}  // namespace plan
