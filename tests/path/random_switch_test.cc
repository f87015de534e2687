// Random models, odd sizes, world sizes that are no powers of two, sparse and permuted ranks,
// joiners, leavers and dead ranks: planned, proved, replayed.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "libplan/base/error.h"
#include "tests/path/switch_check.h"

namespace plan::test {
namespace {

using Random = std::mt19937_64;

std::int32_t pick(Random& random, std::initializer_list<std::int32_t> choices) {
  return *(choices.begin() + static_cast<std::ptrdiff_t>(random() % choices.size()));
}

// 12 heads, 6 groups, FFN 36 and 12 layers divide by 1, 2, 3, 4, 6; the vocabulary divides by
// little.
std::string random_model(Random& random) {
  const bool tied = random() % 2 == 0;
  const bool moe = random() % 3 == 0;
  std::string text =
      R"({"num_layers": 12, "hidden_size": 24, "num_attention_heads": 12, "num_query_groups": 12,)";
  text +=
      R"("ffn_hidden_size": 36, "swiglu": true, "normalization": "RMSNorm", "position_embedding_type": "rope",)";
  text += "\"vocab_size\": " + std::to_string(50 + random() % 80) +
          ", \"make_vocab_size_divisible_by\": " + std::to_string(1 + random() % 16) + ",";
  if (moe) text += R"("num_experts": 12, "moe_ffn_hidden_size": 12,)";
  text +=
      std::string("\"untie_embeddings_and_output_weights\": ") + (tied ? "false" : "true") + "}";
  return text;
}

Strategy random_strategy(Random& random, bool moe) {
  Strategy s;
  s.tensor_model_parallel_size = pick(random, {1, 1, 2, 3, 4});
  s.pipeline_model_parallel_size = pick(random, {1, 1, 2, 3});
  s.context_parallel_size = pick(random, {1, 1, 1, 2, 3});
  const std::int32_t dp = pick(random, {1, 1, 2, 3, 5});
  s.world_size =
      s.tensor_model_parallel_size * s.pipeline_model_parallel_size * s.context_parallel_size * dp;
  const std::int32_t expert_ranks = s.world_size / s.pipeline_model_parallel_size;
  if (moe) {
    s.expert_tensor_parallel_size = 1;
    for (const std::int32_t ep : {6, 4, 3, 2}) {
      if (expert_ranks % ep == 0 && random() % 2 == 0) {
        s.expert_model_parallel_size = ep;
        break;
      }
    }
  }
  if (s.context_parallel_size * dp % 2 == 0 && !moe && random() % 3 == 0)
    s.num_distributed_optimizer_instances = 2;
  if (random() % 8 == 0 && s.num_distributed_optimizer_instances == 1)
    s.use_distributed_optimizer = false;
  return s;
}

// Ranks on a random subset of 40 devices, in random order.
void scatter(Random& random, Strategy& strategy) {
  std::vector<std::int32_t> devices(40);
  std::iota(devices.begin(), devices.end(), 0);
  std::shuffle(devices.begin(), devices.end(), random);
  for (std::int32_t rank = 0; rank < strategy.world_size; ++rank)
    strategy.ranks.emplace_back(devices[static_cast<std::size_t>(rank)]);
}

TEST_CASE("random switches between random meshes") {
  const std::uint64_t seed = 20261201;
  Random random(seed);
  int planned = 0;
  for (int round = 0; round < 60; ++round) {
    const std::string json = random_model(random);
    const bool moe = json.find("num_experts") != std::string::npos;
    Strategy from = random_strategy(random, moe);
    Strategy to = random_strategy(random, moe);
    if (from.world_size > 40 || to.world_size > 40) continue;
    if (random() % 2 == 0) scatter(random, from);
    if (random() % 2 == 0) scatter(random, to);
    PlanOptions options;
    options.model.megatron_version =
        random() % 2 == 0 ? MegatronVersion::V013 : MegatronVersion::V020;
    options.model.transformer_impl =
        random() % 2 == 0 ? TransformerImpl::Local : TransformerImpl::TransformerEngine;
    options.algorithm = random() % 2 == 0 ? Algorithm::Direct : Algorithm::Balanced;
    options.window_ops = pick(random, {2, 5, 256});
    if (random() % 2 == 0)
      options.states = {*builtin_state_kind("param"), *builtin_state_kind("exp_avg")};
    Request request;
    request.model = parse_model(json, "model", "random", options.model).origin_json;
    request.source.strategy = from;
    request.target.strategy = to;
    request.topology = read_topology("gpus=7+8+9+16");
    request.options = options;
    CAPTURE(seed, round, json, to_json(from), to_json(to));
    try {
      REQUIRE(fault_of_switch(request, true) == "");
      ++planned;
    } catch (const Error& error) {
      // A combination that Megatron itself refuses; nothing else may be refused here.
      CAPTURE(error.what());
      REQUIRE(error.code() == ErrorCode::BadInput);
    }
  }
  CHECK(planned > 30);
}

TEST_CASE("survivors plan around dead ranks, and what is lost is named") {
  Strategy from;
  from.world_size = 8;
  from.tensor_model_parallel_size = 2;
  from.num_distributed_optimizer_instances = 2;
  Strategy to;
  to.world_size = 5;
  to.ranks = {DeviceId(0), DeviceId(1), DeviceId(3), DeviceId(4), DeviceId(6)};
  Request request = make_request("tiny-llama", from, to, "nodes=2,gpus=4", {});
  request.topology = with_dead(request.topology, {DeviceId(2), DeviceId(5), DeviceId(7)});
  // 2 and 6, 3 and 7, 1 and 5 are copies of each other; nothing is lost.
  CHECK(fault_of_switch(request, true) == "");

  request.topology = with_dead(read_topology("nodes=2,gpus=4"), {DeviceId(2)});
  from.num_distributed_optimizer_instances = 1;
  request.source.strategy = from;
  try {
    make_plan(request);
    FAIL("planned although state is lost");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::Infeasible);
    CHECK_THAT(error.what(),
               Catch::Contains("no living holder") && Catch::Contains("dead devices {2"));
  }
}

}  // namespace
}  // namespace plan::test
