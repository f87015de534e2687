#include "libplan/strategy/stage_memory.h"

#include <catch2/catch.hpp>

namespace plan {
namespace {

// Two layers of one 3 x 5 weight each, a 10 x 4 tied embedding, four experts of 2 x 7 per layer.
Model small_model() {
  Model model;
  model.num_layers = 2;
  model.num_experts = 4;
  model.tied_embeddings = true;
  model.make_vocab_size_divisible_by = 8;
  model.expert_params = ExpertParams::PerLinear;
  Tensor embedding;
  embedding.name = "embedding";
  embedding.shape = Dims{10, 4};
  embedding.stage = StageRole::FirstAndLast;
  embedding.tp_axis = embedding.vocab_axis = 0;
  model.tensors.push_back(embedding);
  for (int layer = 0; layer < 2; ++layer) {
    Tensor weight;
    weight.name = "w" + std::to_string(layer);
    weight.shape = Dims{3, 4};
    weight.tp_axis = 1;
    weight.layer = layer;
    model.tensors.push_back(weight);
    Tensor experts = weight;
    experts.name = "e" + std::to_string(layer);
    experts.shape = Dims{4, 2, 100};
    experts.expert_axis = 0;
    experts.tp_axis = 2;
    model.tensors.push_back(experts);
  }
  return model;
}

Strategy sized(std::int32_t world, std::int32_t tp, std::int32_t pp, std::int32_t ep) {
  Strategy s;
  s.world_size = world;
  s.tensor_model_parallel_size = tp;
  s.pipeline_model_parallel_size = pp;
  s.expert_model_parallel_size = ep;
  return s;
}

TEST_CASE("elements of each stage, by hand") {
  const Model model = small_model();
  // tp 2, pp 1, ep 2: dense walk w1, w0, embedding = 6 -> 64 + 6 -> 128 + 32 = 160 -> 256;
  // experts 2 per layer of 2 x 50: 100, 128 + 100, 256 + 100, 384 + 100 = 484 -> 512.
  const auto one = stage_elements(model, sized(4, 2, 1, 2), MegatronVersion::V020, {});
  REQUIRE(one);
  CHECK(*one == std::vector<StageElements>{{256, 512, 2 * 6 + 2 * 2 * 100 + 32}});
  // pp 2: each stage has a copy of the embedding in a bucket of its own: on the first stage after
  // the bucket of w0, on the last one before it.
  const auto two = stage_elements(model, sized(8, 2, 2, 2), MegatronVersion::V020, {});
  REQUIRE(two);
  CHECK(*two == std::vector<StageElements>{{256, 256, 6 + 200 + 32}, {256, 256, 6 + 200 + 32}});
  // ep 1 and etp = tp: experts lie in the dense buffer.
  const auto dense = stage_elements(model, sized(2, 2, 1, 1), MegatronVersion::V013, {});
  REQUIRE(dense);
  CHECK((*dense)[0].expert_buffer == 0);
  CHECK((*dense)[0].parameters == 12 + 2 * 4 * 100 + 32);
}

TEST_CASE("bytes follow the optimizer") {
  const Model model = small_model();
  Strategy s = sized(8, 2, 1, 2);  // dp 4, edp 2
  const auto sharded = stage_bytes(model, s, MegatronVersion::V020, {});
  REQUIRE(sharded);
  // 512: lcm(4, 128) = 128 still; experts over 2.
  CHECK((*sharded)[0].weights == 2 * (256 + 512));
  CHECK((*sharded)[0].gradients == 4 * (256 + 512));
  CHECK((*sharded)[0].optimizer == 12 * (256 / 4 + 512 / 2));
  s.use_distributed_optimizer = false;
  const auto whole = stage_bytes(model, s, MegatronVersion::V020, {});
  CHECK((*whole)[0].optimizer == 12 * 444);
  CHECK((*whole)[0].weights == 2 * 444);
}

TEST_CASE("strategies that do not fit the model give nothing") {
  const Model model = small_model();
  CHECK_FALSE(stage_elements(model, sized(3, 3, 1, 1), MegatronVersion::V020, {}));
  CHECK_FALSE(stage_elements(model, sized(8, 1, 1, 8), MegatronVersion::V020, {}));
  CHECK_FALSE(stage_elements(model, sized(8, 1, 4, 1), MegatronVersion::V020, {}));
  Strategy fsdp = sized(8, 1, 1, 1);
  fsdp.use_torch_fsdp2 = true;
  CHECK_FALSE(stage_elements(model, fsdp, MegatronVersion::V020, {}));
}

}  // namespace
}  // namespace plan
