// Layouts of random small models under random strategies: who holds how many copies, and that a
// layout survives its file form.
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "libplan/base/error.h"
#include "libplan/layout/layout_json.h"
#include "libplan/layout/megatron.h"
#include "libplan/model/transformer.h"
#include "tests/layout/golden_case.h"

namespace plan {
namespace {

struct Job {
  Model model;
  Strategy strategy;
  MegatronOptions options;
  std::vector<std::string> states;
};

class RandomJobs {
 public:
  explicit RandomJobs(std::uint32_t seed) : random_(seed) {}

  Job make() {
    Job job;
    job.options.version = pick<MegatronVersion>(
        {MegatronVersion::V011, MegatronVersion::V013, MegatronVersion::V020});
    job.options.overlap_grad_reduce = chance(2);
    if (chance(2)) job.options.ddp_bucket_size = number(1, 4000);
    job.options.ddp_pad_buckets_for_high_nccl_busbw = chance(8);
    job.strategy = strategy();
    job.model = build_transformer(
        config(), job.options.version,
        pick<TransformerImpl>({TransformerImpl::Local, TransformerImpl::TransformerEngine}));
    if (chance(4)) freeze_some(job.model);
    job.states = chance(2) ? std::vector<std::string>{"main_param", "exp_avg", "exp_avg_sq"}
                           : std::vector<std::string>{"param", "main_param", "exp_avg"};
    return job;
  }

 private:
  std::int32_t number(std::int32_t low, std::int32_t high) {  // both included
    return low + static_cast<std::int32_t>(random_() % static_cast<std::uint32_t>(high - low + 1));
  }
  bool chance(std::int32_t one_in) { return number(1, one_in) == 1; }
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[number(0, static_cast<std::int32_t>(choices.size()) - 1)];
  }

  Strategy strategy() {
    Strategy s;
    const std::int32_t pp = number(1, 3);
    const std::int32_t inner = pick<std::int32_t>({1, 2, 3, 4, 6, 8, 12});
    s.pipeline_model_parallel_size = pp;
    s.world_size = pp * inner;
    s.tensor_model_parallel_size = divisor(inner);
    const std::int32_t rest = inner / s.tensor_model_parallel_size;
    s.context_parallel_size = chance(3) ? divisor(rest) : 1;
    moe_ = chance(2);
    if (moe_) s.expert_model_parallel_size = divisor(inner);
    if (moe_ || chance(3)) {
      s.expert_tensor_parallel_size = divisor(inner / s.expert_model_parallel_size);
    }
    if (chance(2)) s.num_distributed_optimizer_instances = divisor(rest);
    s.use_distributed_optimizer = s.num_distributed_optimizer_instances > 1 || !chance(5);
    s.order = pick<const char*>(
        {"tp-cp-ep-dp-pp", "tp-cp-dp-ep-pp", "tp-cp-ep-dp-pp", "cp-tp-ep-dp-pp", "tp-pp-dp"});
    pipeline(s);
    for (std::int32_t rank = chance(4) ? s.world_size : 0; rank > 0; --rank) {
      s.ranks.emplace_back(3 * rank);
    }
    return s;
  }

  void pipeline(Strategy& s) {
    const std::int32_t pp = s.pipeline_model_parallel_size;
    const std::int32_t each = number(1, 2);
    layers_ = pp * each;
    if (pp == 1) return;
    switch (number(0, 4)) {
      case 0:
        s.virtual_pipeline_model_parallel_size = 2;
        layers_ = 2 * pp * each;
        break;
      case 1:
        s.num_layers_in_first_pipeline_stage = number(1, 3);
        layers_ = *s.num_layers_in_first_pipeline_stage + (pp - 1) * each;
        break;
      case 2:
        s.account_for_embedding_in_pipeline_split = true;
        layers_ = pp * (each + 1) - 1;
        break;
      case 3: {
        std::vector<std::string> positions(static_cast<std::size_t>(pp));
        for (std::int32_t layer = 0; layer < layers_; ++layer) {
          positions[static_cast<std::size_t>(layer % 2 == 0 ? 0 : pp - 1)] += 't';
        }
        positions.front().insert(0, "E");
        positions.back() += 'L';
        s.pipeline_model_parallel_layout = positions;
        break;
      }
      default: break;
    }
  }

  TransformerConfig config() {
    TransformerConfig c;
    c.num_layers = layers_;
    c.hidden_size = 24;
    c.num_attention_heads = 12;
    c.num_query_groups = 12;
    c.ffn_hidden_size = pick<std::int64_t>({24, 36, 120});
    c.vocab_size = number(3, 50);
    c.make_vocab_size_divisible_by = number(1, 9);
    c.max_position_embeddings = 7;
    c.gated_linear_unit = chance(2);
    c.add_bias_linear = chance(3);
    c.add_qkv_bias = chance(3);
    c.untie_embeddings_and_output_weights = chance(2);
    c.qk_layernorm = chance(3);
    c.normalization = pick<Normalization>({Normalization::RmsNorm, Normalization::LayerNorm});
    c.position_embedding_type =
        pick<PositionEmbedding>({PositionEmbedding::Rope, PositionEmbedding::LearnedAbsolute});
    c.params_dtype = chance(6) ? Dtype::Float32 : Dtype::BFloat16;
    if (moe_) {
      c.moe.emplace();
      c.moe->num_moe_experts = 24;
      c.moe->moe_ffn_hidden_size = 12;
      c.moe->moe_layer_freq = number(1, 2);
      if (chance(2)) c.moe->moe_shared_expert_intermediate_size = 24;
      c.moe->moe_shared_expert_gate = chance(2);
      c.moe->moe_grouped_gemm = chance(2);
      c.moe->moe_router_enable_expert_bias = chance(2);
      if (c.moe->moe_shared_expert_intermediate_size || *c.moe->moe_grouped_gemm) {
        c.add_bias_linear = false;
      }
    }
    if (chance(5)) c.mla = MlaConfig{12, 12, 4, 12, 4};
    return c;
  }

  void freeze_some(Model& model) {
    for (Tensor& tensor : model.tensors) {
      if (chance(4) && tensor.stage != StageRole::FirstAndLast) tensor.trainable = false;
    }
  }

  std::int32_t divisor(std::int32_t of) {
    std::int32_t candidate = number(1, of);
    while (of % candidate != 0) --candidate;
    return candidate;
  }

  std::mt19937 random_;
  std::int32_t layers_ = 1;
  bool moe_ = false;
};

// Copies of each element, by canonical row-major number.
using Counts = std::vector<std::int32_t>;

void count_box(const Dims& shape, const Box& box, Counts& counts) {
  const Dims extents = box.extents();
  Dims index;
  index.count = extents.count;
  for (std::int64_t left = num_elements(extents); left > 0; --left) {
    std::int64_t number = 0;
    for (int axis = 0; axis < index.count; ++axis) {
      number = number * shape[axis] + box[axis].begin + index[axis];
    }
    ++counts.at(static_cast<std::size_t>(number));
    for (int axis = index.count - 1; axis >= 0; --axis) {
      if (++index[axis] < extents[axis]) break;
      index[axis] = 0;
    }
  }
}

std::map<std::string, std::vector<Counts>> count_copies(const Layout& layout) {
  std::map<std::string, std::vector<Counts>> copies;  // by state, then by tensor
  for (const StateKind& state : layout.states) {
    for (const LayoutTensor& tensor : layout.tensors) {
      copies[state.name].emplace_back(static_cast<std::size_t>(num_elements(tensor.shape)), 0);
    }
  }
  for (const DeviceShards& device : layout.devices) {
    for (const Storage& storage : device.storages) {
      for (const Lane& lane : storage.lanes) {
        std::vector<Counts>& counts =
            copies[layout.states[static_cast<std::size_t>(lane.state.value)].name];
        for (const Shard& shard : storage.shards) {
          const auto tensor = static_cast<std::size_t>(shard.tensor.value);
          count_box(layout.tensors[tensor].shape, shard.box, counts[tensor]);
        }
      }
    }
  }
  return copies;
}

// How many devices must hold each element of the tensor, from the sizes alone.
std::int32_t expected_copies(const Job& job, const Tensor& tensor, const std::string& state) {
  const Strategy& s = job.strategy;
  const bool requested = std::find(job.states.begin(), job.states.end(), state) != job.states.end();
  const bool has_main = tensor.trainable && !tensor.buffer;
  const bool fp32 = tensor.dtype == Dtype::Float32;
  if (state == "param" ? !requested && has_main && !fp32
                       : !has_main || !requested || (state == "main_param" && fp32)) {
    return 0;
  }
  const bool expert = tensor.expert_axis >= 0;
  const std::int32_t per_stage = s.world_size / s.pipeline_model_parallel_size;
  const std::int32_t ways = expert ? s.etp() : s.tensor_model_parallel_size;
  const std::int32_t data = per_stage / ways / (expert ? s.expert_model_parallel_size : 1);
  std::int32_t copies = data;
  if (state != "param" && s.use_distributed_optimizer) {
    const bool whole =
        expert && job.options.version == MegatronVersion::V011 && s.expert_model_parallel_size > 1;
    copies = whole ? 1 : s.num_distributed_optimizer_instances;
  }
  if (tensor.tp_axis < 0) copies *= ways;
  const bool twice = tensor.stage == StageRole::FirstAndLast && s.pipeline_model_parallel_size > 1;
  return twice ? 2 * copies : copies;
}

// 0.11 and 0.13 shard such experts over ranks that hold other parts of them.
bool experts_in_dense_buffers(const Job& job) {
  return job.options.version != MegatronVersion::V020 &&
         job.strategy.expert_model_parallel_size == 1 &&
         job.strategy.etp() != job.strategy.tensor_model_parallel_size;
}

void check_copies(const Job& job, const Layout& layout) {
  std::map<std::string, std::vector<Counts>> copies = count_copies(layout);
  for (const auto& [state, tensors] : copies) {
    for (std::size_t i = 0; i < job.model.tensors.size(); ++i) {
      const Tensor& tensor = job.model.tensors[i];
      if (state != "param" && tensor.expert_axis >= 0 && experts_in_dense_buffers(job)) continue;
      const std::int32_t expected = expected_copies(job, tensor, state);
      const bool all = std::all_of(tensors[i].begin(), tensors[i].end(),
                                   [&](std::int32_t count) { return count == expected; });
      CAPTURE(state, tensor.name, expected, tensors[i].front());
      REQUIRE(all);
    }
  }
}

void check_file_form(Layout layout, Layout other) {
  const Layout read = parse_layout_json(to_json(layout), "layout.json");
  REQUIRE(read.tensors == layout.tensors);
  REQUIRE(read.states == layout.states);
  REQUIRE(read.devices == layout.devices);
  const std::string name = digest(layout);
  REQUIRE(digest(read) == name);
  const std::string other_name = digest(other);
  unify(other, layout);
  REQUIRE(digest(layout) == name);
  REQUIRE(digest(other) == other_name);
  validate(layout);
  for (DeviceShards& device : layout.devices) {
    if (device.storages.empty() || device.storages.back().shards.empty()) continue;
    ++device.storages.back().shards.back().offset_elems;
    REQUIRE(digest(layout) != name);
    return;
  }
}

TEST_CASE("random layouts hold every element as often as their sizes say") {
  RandomJobs jobs(20250101);
  std::int32_t built = 0;
  std::map<ErrorCode, std::int32_t> refused;
  for (std::int32_t i = 0; i < 300; ++i) {
    CAPTURE(i);
    try {
      const Job job = jobs.make();
      CAPTURE(to_json(job.strategy));
      const std::vector<StateKind> states = state_kinds(job.states);
      const Layout layout = megatron_layout(job.model, job.strategy, job.options, states);
      validate(layout);
      check_copies(job, layout);
      if (i % 8 == 0) {
        Strategy single;
        check_file_form(layout, megatron_layout(job.model, single, job.options, states));
      }
      ++built;
    } catch (const Error& error) {
      CAPTURE(error.what());
      const bool known =
          error.code() == ErrorCode::BadInput || error.code() == ErrorCode::Unsupported;
      REQUIRE(known);
      ++refused[error.code()];
    }
  }
  INFO(refused[ErrorCode::BadInput] << " bad, " << refused[ErrorCode::Unsupported]
                                    << " unsupported");
  CHECK(built > 200);
}

}  // namespace
}  // namespace plan
