// Rules that no golden layout shows: default bucket sizes, the plain optimizer, notices, refusals,
// state that a main copy cannot rebuild, checkpoint keys of other implementations.
#include "libplan/layout/megatron.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "libplan/base/error.h"
#include "libplan/layout/checkpoint_view.h"
#include "libplan/model/transformer.h"
#include "tests/layout/golden_case.h"

namespace plan {
namespace {

TransformerConfig small_config() {
  TransformerConfig config;
  config.num_layers = 4;
  config.hidden_size = 16;
  config.num_attention_heads = 4;
  config.ffn_hidden_size = 32;
  config.vocab_size = 100;
  config.gated_linear_unit = true;
  return config;
}

TransformerConfig moe_config() {
  TransformerConfig config = small_config();
  config.moe.emplace();
  config.moe->num_moe_experts = 4;
  return config;
}

Model small_model(MegatronVersion version = MegatronVersion::V013) {
  return build_transformer(small_config(), version, TransformerImpl::Local);
}

MegatronOptions options_of(MegatronVersion version) {
  MegatronOptions options;
  options.version = version;
  return options;
}

Strategy strategy_of(std::int32_t world, std::int32_t tp, std::int32_t pp) {
  Strategy strategy;
  strategy.world_size = world;
  strategy.tensor_model_parallel_size = tp;
  strategy.pipeline_model_parallel_size = pp;
  return strategy;
}

ErrorCode refusal(const Model& model, const Strategy& strategy, const MegatronOptions& options) {
  try {
    place_megatron(model, strategy, options);
  } catch (const Error& error) {
    return error.code();
  }
  FAIL("expected an error");
  return ErrorCode::Usage;
}

const LocalParam& param_named(const MegatronChunk& chunk, const std::string& name) {
  const auto found = std::find_if(chunk.params.begin(), chunk.params.end(),
                                  [&](const LocalParam& param) { return param.name == name; });
  REQUIRE(found != chunk.params.end());
  return *found;
}

TEST_CASE("bucket sizes") {
  TransformerConfig config = small_config();
  config.hidden_size = 1024;
  config.ffn_hidden_size = 4096;
  config.num_layers = 8;
  const Model model = build_transformer(config, MegatronVersion::V013, TransformerImpl::Local);
  MegatronOptions options = options_of(MegatronVersion::V013);
  const auto buckets = [&](const Strategy& strategy, std::size_t stage, std::size_t chunk) {
    const MegatronPlacement placement = place_megatron(model, strategy, options);
    return placement.stages[stage][chunk].buffers.at(0).buckets;
  };
  SECTION("one bucket unless the reduction overlaps") {
    CHECK(buckets(strategy_of(4, 1, 1), 0, 0).size() == 1);
  }
  SECTION("forty million elements, passed before a bucket closes") {
    options.overlap_grad_reduce = true;
    const auto few = buckets(strategy_of(4, 1, 1), 0, 0);
    CHECK(few.size() == 4);
    CHECK(few[0].numel_unpadded > 40'000'000);
    CHECK(few[0].numel_unpadded < 50'000'000);
  }
  SECTION("a million elements for each rank of a large data-parallel group, cp counted") {
    options.overlap_grad_reduce = true;
    Strategy strategy = strategy_of(64, 1, 1);
    strategy.context_parallel_size = 2;
    CHECK(buckets(strategy, 0, 0)[0].numel_unpadded > 64'000'000);
  }
  SECTION("only on the first stage and in its first chunk") {
    options.overlap_grad_reduce = true;
    options.ddp_bucket_size = 1'000'000;
    Strategy strategy = strategy_of(4, 1, 2);
    strategy.virtual_pipeline_model_parallel_size = 2;
    CHECK(buckets(strategy, 0, 0).size() > 1);
    CHECK(buckets(strategy, 0, 1).size() == 1);
    CHECK(buckets(strategy, 1, 0).size() == 1);
  }
  SECTION("a number of buckets") {
    options.overlap_grad_reduce = true;
    options.ddp_num_buckets = 8;
    CHECK(buckets(strategy_of(4, 1, 1), 0, 0).size() <= 8);
    CHECK(buckets(strategy_of(4, 1, 1), 0, 0).size() >= 6);
  }
  SECTION("the entry of the strategy list wins") {
    options.overlap_grad_reduce = true;
    options.ddp_bucket_size = 1'000'000;
    Strategy strategy = strategy_of(4, 1, 1);
    strategy.overlap_grad_reduce = false;
    CHECK(buckets(strategy, 0, 0).size() == 1);
  }
}

TEST_CASE("the vocabulary is padded to a multiple of its divisor times tp") {
  const Model model = small_model();  // 100 tokens, divisor 128
  const MegatronOptions options = options_of(MegatronVersion::V013);
  for (const auto& [tp, padded] : {std::pair{1, 128}, std::pair{2, 256}, std::pair{4, 512}}) {
    const MegatronPlacement placement = place_megatron(model, strategy_of(tp, tp, 1), options);
    const LocalParam& param =
        param_named(placement.stages[0][0], "embedding.word_embeddings.weight");
    CHECK(param.registered_shape == Dims{padded / tp, 16});
    const auto shards =
        checkpoint_shards(model, param, placement.cuts, placement.grid.coords(tp - 1),
                          options.version, CheckpointOptions{});
    CHECK(shards.at(0).global_shape == Dims{padded, 16});
    // Padding rows are a tensor of their own; the ranks share all of them.
    const Layout layout =
        megatron_layout(model, strategy_of(tp, tp, 1), options, state_kinds({"param"}));
    std::int64_t rows = 0;
    for (const DeviceShards& device : layout.devices) {
      for (const Shard& shard : device.storages.at(0).shards) {
        const LayoutTensor& tensor = layout.tensors[static_cast<std::size_t>(shard.tensor.value)];
        if (tensor.name == "embedding.word_embeddings.weight.padding") {
          CHECK(tensor.shape == Dims{padded - 100, 16});
          rows += shard.box[0].length();
        }
      }
    }
    CHECK(rows == padded - 100);
  }
}

TEST_CASE("without the distributed optimizer nothing is padded and every rank owns all") {
  TransformerConfig config = small_config();
  config.hidden_size = 20;
  config.ffn_hidden_size = 12;
  config.untie_embeddings_and_output_weights = false;
  const Model model = build_transformer(config, MegatronVersion::V013, TransformerImpl::Local);
  Strategy strategy = strategy_of(6, 1, 2);
  strategy.use_distributed_optimizer = false;
  const MegatronPlacement placement =
      place_megatron(model, strategy, options_of(MegatronVersion::V013));
  for (const std::vector<MegatronChunk>& chunks : placement.stages) {
    const MegatronChunk& chunk = chunks.at(0);
    const FlatBuffer& buffer = chunk.buffers.at(0);
    std::int64_t numel = 0;
    for (const LocalParam& param : chunk.params) numel += param.numel;
    CHECK(buffer.numel == numel);
    CHECK(buffer.numel_unpadded == numel);
    CHECK(buffer.buckets.size() == 1);  // no bucket for the shared embedding
    CHECK(owned_ranges(chunk, buffer, 0).size() == chunk.params.size());
  }
}

TEST_CASE("notices name the faults of a version that the layout has") {
  const auto notices = [](const Model& model, const Strategy& strategy, MegatronVersion version,
                          const char* state = "param") {
    return megatron_layout(model, strategy, options_of(version), state_kinds({state})).notices;
  };
  SECTION("none") {
    CHECK(notices(small_model(), strategy_of(4, 2, 2), MegatronVersion::V013).empty());
  }
  SECTION("layers twice") {
    TransformerConfig config = small_config();
    config.num_layers = 14;
    Strategy strategy = strategy_of(4, 1, 4);
    strategy.virtual_pipeline_model_parallel_size = 2;
    strategy.num_layers_in_last_pipeline_stage = 2;
    const Model model = build_transformer(config, MegatronVersion::V013, TransformerImpl::Local);
    const std::vector<std::string> found = notices(model, strategy, MegatronVersion::V013);
    REQUIRE(found.size() == 1);
    CHECK(found[0].find("Megatron-Core 0.13 builds decoder layers 0, 1") == 0);
    CHECK(notices(model, strategy, MegatronVersion::V020).empty());
  }
  SECTION("experts in dense buffers") {
    const Model model =
        build_transformer(moe_config(), MegatronVersion::V013, TransformerImpl::Local);
    Strategy strategy = strategy_of(4, 2, 1);
    strategy.expert_tensor_parallel_size = 1;
    CHECK(notices(model, strategy, MegatronVersion::V013).size() == 1);
    CHECK(notices(model, strategy, MegatronVersion::V020).empty());
    strategy.expert_model_parallel_size = 2;
    CHECK(notices(model, strategy, MegatronVersion::V013).empty());
  }
  SECTION("a shared embedding inside another bucket") {
    TransformerConfig config = small_config();
    config.untie_embeddings_and_output_weights = false;
    config.hidden_size = 64;
    config.num_layers = 2;
    config.add_qkv_bias = true;  // 192 elements: the embedding starts at an odd multiple of 64
    const Model model = build_transformer(config, MegatronVersion::V011, TransformerImpl::Local);
    CHECK(notices(model, strategy_of(4, 1, 2), MegatronVersion::V013).empty());
    const std::vector<std::string> found =
        notices(model, strategy_of(4, 1, 2), MegatronVersion::V011);
    REQUIRE(found.size() == 1);
    CHECK(found[0].find("inside the padding") != std::string::npos);
    CHECK_THROWS_AS(notices(model, strategy_of(4, 1, 2), MegatronVersion::V011, "main_param"),
                    Error);
  }
  SECTION("optimizer instances paired by the expert cut") {
    const Model model =
        build_transformer(moe_config(), MegatronVersion::V013, TransformerImpl::Local);
    Strategy strategy = strategy_of(8, 1, 1);
    strategy.expert_model_parallel_size = 2;
    strategy.num_distributed_optimizer_instances = 2;
    CHECK(notices(model, strategy, MegatronVersion::V013).empty());
    strategy.order = "tp-cp-dp-ep-pp";
    CHECK(notices(model, strategy, MegatronVersion::V013).size() == 1);
  }
}

TEST_CASE("what does not fit is refused with the sizes") {
  const MegatronOptions options = options_of(MegatronVersion::V013);
  CHECK(refusal(small_model(), strategy_of(3, 3, 1), options) == ErrorCode::BadInput);
  CHECK(refusal(small_model(), strategy_of(3, 1, 3), options) == ErrorCode::BadInput);
  Strategy experts = strategy_of(2, 1, 1);
  experts.expert_model_parallel_size = 2;
  CHECK(refusal(small_model(), experts, options) == ErrorCode::BadInput);
  Strategy instances = strategy_of(4, 1, 1);
  instances.num_distributed_optimizer_instances = 2;
  instances.use_distributed_optimizer = false;
  CHECK(refusal(small_model(), instances, options) == ErrorCode::BadInput);
  Strategy fsdp = strategy_of(4, 1, 1);
  fsdp.use_megatron_fsdp = true;
  CHECK(refusal(small_model(), fsdp, options) == ErrorCode::Unsupported);
}

// Names of tensors that have the `param` state on the first device.
std::vector<std::string> param_tensors(const Layout& layout) {
  std::vector<std::string> names;
  for (const Storage& storage : layout.devices.at(0).storages) {
    for (const Lane& lane : storage.lanes) {
      if (layout.states[static_cast<std::size_t>(lane.state.value)].name != "param") continue;
      for (const Shard& shard : storage.shards) {
        names.push_back(layout.tensors[static_cast<std::size_t>(shard.tensor.value)].name);
      }
    }
  }
  return names;
}

TEST_CASE("values without a main copy always move") {
  TransformerConfig config = moe_config();
  config.num_layers = 1;
  config.moe->moe_router_enable_expert_bias = true;
  Model model = build_transformer(config, MegatronVersion::V013, TransformerImpl::Local);
  for (Tensor& tensor : model.tensors) {
    if (tensor.name == "decoder.final_layernorm.weight") tensor.trainable = false;
  }
  const MegatronOptions options = options_of(MegatronVersion::V013);
  const Layout layout =
      megatron_layout(model, strategy_of(2, 1, 1), options, state_kinds({"main_param"}));
  CHECK(param_tensors(layout) == std::vector<std::string>{"decoder.layers.0.mlp.router.expert_bias",
                                                          "decoder.final_layernorm.weight"});
  const MegatronPlacement placement = place_megatron(model, strategy_of(2, 1, 1), options);
  for (const FlatParam& flat : placement.stages[0][0].buffers[0].params) {
    CHECK(placement.stages[0][0].params[static_cast<std::size_t>(flat.param)].trainable);
  }
}

TEST_CASE("a state in host memory has a storage of its own") {
  std::vector<StateKind> states = state_kinds({"main_param", "exp_avg"});
  states[1].memory = MemoryKind::Host;
  const Layout layout = megatron_layout(small_model(), strategy_of(2, 1, 1),
                                        options_of(MegatronVersion::V013), states);
  for (const Storage& storage : layout.devices.at(1).storages) {
    REQUIRE(storage.lanes.size() == 1);
    CHECK((storage.memory == MemoryKind::Host) == (storage.lanes[0].state == StateId(1)));
  }
  CHECK_NOTHROW(validate(layout));
}

TEST_CASE("checkpoint keys that the golden layouts do not show") {
  Strategy strategy = strategy_of(4, 1, 1);
  strategy.expert_model_parallel_size = 2;
  const MegatronOptions options = options_of(MegatronVersion::V020);
  const auto shards = [&](TransformerImpl impl, const CheckpointOptions& checkpoint,
                          const std::string& name, std::int32_t rank) {
    const Model model = build_transformer(moe_config(), options.version, impl);
    const MegatronPlacement placement = place_megatron(model, strategy, options);
    return checkpoint_shards(model, param_named(placement.stages[0][0], name), placement.cuts,
                             placement.grid.coords(rank), options.version, checkpoint);
  };
  SECTION("single experts and halves as tensors of their own") {
    CheckpointOptions singleton;
    singleton.singleton_local_shards = true;
    const auto fc1 = shards(TransformerImpl::Local, singleton,
                            "decoder.layers.2.mlp.experts.local_experts.1.linear_fc1.weight", 1);
    REQUIRE(fc1.size() == 2);
    CHECK(fc1[1].key == "decoder.layers.2.mlp.experts.experts.3.linear_fc1.weight_v");
    CHECK(fc1[1].global_shape == Dims{32, 16});
    CHECK(fc1[1].prepended_axes == 0);
  }
  SECTION("TransformerEngine's names") {
    CheckpointOptions engine;
    engine.impl = TransformerImpl::TransformerEngine;
    const auto norm = shards(engine.impl, engine, "decoder.layers.2.pre_mlp_layernorm.weight", 0);
    CHECK(norm.at(0).key == "decoder.layers.pre_mlp_layernorm.weight");
    const auto fc1 =
        shards(engine.impl, engine, "decoder.layers.2.mlp.experts.linear_fc1.weight1", 3);
    REQUIRE(fc1.size() == 2);
    CHECK(fc1[1].key == "decoder.layers.mlp.experts.experts.linear_fc1.weight");
    CHECK(fc1[1].global_offset == Dims{2, 3, 32, 0});
    CHECK(fc1[1].replica_id == std::array<std::int32_t, 3>{0, 0, 1});
  }
  SECTION("singleton shards came with 0.20") {
    CheckpointOptions singleton;
    singleton.singleton_local_shards = true;
    const Model model = small_model();
    const MegatronPlacement placement =
        place_megatron(model, strategy_of(1, 1, 1), options_of(MegatronVersion::V013));
    CHECK_THROWS_AS(checkpoint_shards(model, placement.stages[0][0].params[0], placement.cuts,
                                      GridCoords{}, MegatronVersion::V013, singleton),
                    Error);
  }
}

}  // namespace
}  // namespace plan
