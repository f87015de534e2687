#include "libplan/strategy/stage_memory.h"

#include <algorithm>
#include <map>
#include <utility>

#include "libplan/base/checked.h"
#include "libplan/base/error.h"
#include "libplan/strategy/pipeline_split.h"

namespace plan {
namespace {

constexpr std::int64_t kParamAlignment = 64;  // elements
constexpr std::int64_t kBucketAlignment = 128;
constexpr std::int64_t kBusbwAlignment = 65'536;
constexpr std::int64_t kLeastBucket = 40'000'000;
constexpr std::int64_t kBucketPerRank = 1'000'000;

// One flat buffer: where the walk over the parameters, in reverse registration order, has come to.
class FlatBuffer {
 public:
  FlatBuffer(std::int64_t divisor, std::optional<std::int64_t> bucket_size)
      : divisor_(divisor), bucket_size_(bucket_size) {}

  // `count` parameters of `numel` elements each.
  void add(std::int64_t numel, std::int64_t count, bool own_bucket) {
    if (!bucket_size_ && !own_bucket) {
      at_ = ceil_to(at_, kParamAlignment);
      at_ = checked_add(at_, checked_mul(count - 1, ceil_to(numel, kParamAlignment)));
      at_ = checked_add(at_, numel);
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) add_one(numel, own_bucket);
  }
  std::int64_t numel() const { return at_ > begin_ ? ceil_to(at_, divisor_) : begin_; }

 private:
  void add_one(std::int64_t numel, bool own_bucket) {
    at_ = ceil_to(at_, kParamAlignment);
    if (own_bucket && at_ > begin_) close();
    at_ = checked_add(at_, numel);
    if (own_bucket || (bucket_size_ && at_ - begin_ >= *bucket_size_)) close();
  }
  void close() { begin_ = at_ = ceil_to(at_, divisor_); }

  std::int64_t divisor_;
  std::optional<std::int64_t> bucket_size_;
  std::int64_t at_ = 0;
  std::int64_t begin_ = 0;
};

class StageCounter {
 public:
  StageCounter(const Model& model, const RankGrid& grid, MegatronVersion version,
               const BufferOptions& options)
      : model_(model), grid_(grid), options_(options) {
    expert_buffers_ =
        grid.ep() > 1 || (version == MegatronVersion::V020 && grid.etp() != grid.tp());
    for (std::size_t i = 0; i < model.tensors.size(); ++i) {
      const Tensor& tensor = model.tensors[i];
      if (tensor.stage == StageRole::Layer) layers_[tensor.layer].push_back(i);
    }
  }

  // Adds one chunk to its stage. `last` is the last position of the pipeline.
  void add_chunk(StageElements& stage, const StageSpan& span, std::int32_t last) const {
    const std::vector<std::size_t> tensors = tensors_of(span, last);
    const std::optional<std::int64_t> bucket_size = bucket_size_of(span, tensors);
    std::map<std::pair<bool, Dtype>, FlatBuffer> buffers;
    for (std::size_t i = tensors.size(); i-- > 0;) {
      const Tensor& tensor = model_.tensors[tensors[i]];
      if (tensor.buffer) continue;
      const std::int64_t count = params_of(tensor);
      const std::int64_t numel = param_numel(tensor);
      stage.parameters = checked_add(stage.parameters, checked_mul(count, numel));
      if (!tensor.trainable) continue;
      const bool expert = tensor.expert_axis >= 0 && expert_buffers_;
      const auto [buffer, inserted] =
          buffers.try_emplace({expert, tensor.dtype}, divisor(expert), bucket_size);
      const bool shared = tensor.stage == StageRole::FirstAndLast && grid_.pp() > 1;
      buffer->second.add(numel, count, shared);
    }
    for (const auto& [kind, buffer] : buffers) {
      std::int64_t& sum = kind.first ? stage.expert_buffer : stage.dense_buffer;
      sum = checked_add(sum, buffer.numel());
    }
  }

 private:
  // In registration order.
  std::vector<std::size_t> tensors_of(const StageSpan& span, std::int32_t last) const {
    std::vector<std::size_t> tensors;
    const bool first_position = span.position == 0;
    const bool last_position = span.position == last;
    for (std::int32_t layer = span.first_layer; layer < span.first_layer + span.num_layers;
         ++layer) {
      const auto known = layers_.find(layer);
      if (known == layers_.end()) continue;
      tensors.insert(tensors.end(), known->second.begin(), known->second.end());
    }
    for (std::size_t i = 0; i < model_.tensors.size(); ++i) {
      const StageRole role = model_.tensors[i].stage;
      if (role == StageRole::Layer) continue;
      if (role == StageRole::First && first_position) tensors.push_back(i);
      if (role == StageRole::Last && last_position) tensors.push_back(i);
      if (role == StageRole::Every) tensors.push_back(i);
      if (role == StageRole::FirstAndLast && (first_position || last_position))
        tensors.push_back(i);
    }
    std::sort(tensors.begin(), tensors.end());
    move_tied_copy_last(tensors, first_position);
    return tensors;
  }

  // The copy of a tied embedding is the output layer there: registered last.
  void move_tied_copy_last(std::vector<std::size_t>& tensors, bool first_position) const {
    if (first_position) return;
    std::stable_partition(tensors.begin(), tensors.end(), [&](std::size_t i) {
      return model_.tensors[i].stage != StageRole::FirstAndLast;
    });
  }

  // Bucketing is on only for the first chunk of the first stage, and only if reduction overlaps.
  std::optional<std::int64_t> bucket_size_of(const StageSpan& span,
                                             const std::vector<std::size_t>& tensors) const {
    if (!options_.overlap_grad_reduce || span.stage != 0 || span.chunk != 0) return {};
    if (options_.ddp_bucket_size) return options_.ddp_bucket_size;
    if (!options_.ddp_num_buckets) {
      return std::max(kLeastBucket, kBucketPerRank * std::int64_t{grid_.dp_cp_size()});
    }
    std::int64_t total = 0;
    for (const std::size_t i : tensors) {
      const Tensor& tensor = model_.tensors[i];
      if (tensor.buffer) continue;
      total = checked_add(total, checked_mul(params_of(tensor), param_numel(tensor)));
    }
    return ceil_div(total, *options_.ddp_num_buckets);
  }

  std::int64_t divisor(bool expert) const {
    const std::int64_t shards = expert ? grid_.expert_shards() : grid_.dense_shards();
    const std::int64_t least = checked_lcm(shards, kBucketAlignment);
    return options_.pad_for_high_busbw ? checked_lcm(least, kBusbwAlignment) : least;
  }

  std::int64_t params_of(const Tensor& tensor) const {
    if (tensor.expert_axis < 0 || tensor.experts_fused) return 1;
    return tensor.shape[tensor.expert_axis] / grid_.ep();
  }

  // Elements of one local parameter. Error(BadInput) if a cut is not even.
  std::int64_t param_numel(const Tensor& tensor) const {
    Dims extents = tensor.shape;
    const bool expert = tensor.expert_axis >= 0;
    if (tensor.vocab_axis >= 0) {
      std::int64_t& vocab = extents[tensor.vocab_axis];
      vocab = ceil_to(vocab, checked_mul(model_.make_vocab_size_divisible_by, grid_.tp()));
    }
    const auto cut = [](std::int64_t& extent, std::int64_t ways) {
      if (extent % ways != 0) throw Error(ErrorCode::BadInput, "the cut is not even");
      extent /= ways;
    };
    if (tensor.tp_axis >= 0) cut(extents[tensor.tp_axis], expert ? grid_.etp() : grid_.tp());
    if (expert) cut(extents[tensor.expert_axis], grid_.ep());
    const std::int64_t numel = num_elements(extents);
    return numel / params_of(tensor);
  }

  const Model& model_;
  const RankGrid& grid_;
  const BufferOptions& options_;
  bool expert_buffers_ = false;
  std::map<std::int32_t, std::vector<std::size_t>> layers_;
};

}  // namespace

std::optional<std::vector<StageElements>> stage_elements(const Model& model, const Strategy& s,
                                                         MegatronVersion version,
                                                         const BufferOptions& options) {
  if (s.use_torch_fsdp2 || s.use_megatron_fsdp || !s.mesh.empty()) return {};
  try {
    const RankGrid grid = RankGrid::make(s, version);
    const std::vector<StageSpan> spans = pipeline_split(s, model.num_layers, version);
    const StageCounter counter(model, grid, version, options);
    std::vector<StageElements> stages(static_cast<std::size_t>(grid.pp()));
    for (const StageSpan& span : spans) {
      counter.add_chunk(stages[static_cast<std::size_t>(span.stage)], span, spans.back().position);
    }
    return stages;
  } catch (const Error&) {
    return {};  // the rules about sizes say why
  }
}

std::optional<std::vector<StageBytes>> stage_bytes(const Model& model, const Strategy& s,
                                                   MegatronVersion version,
                                                   const BufferOptions& options) {
  const auto elements = stage_elements(model, s, version, options);
  if (!elements) return {};
  const RankGrid grid = RankGrid::make(s, version);
  const std::int64_t gradient = options.grads_in_fp32 ? 4 : 2;
  std::vector<StageBytes> stages;
  for (const StageElements& e : *elements) {
    const std::int64_t buffers = checked_add(e.dense_buffer, e.expert_buffer);
    const std::int64_t held = s.use_distributed_optimizer ? buffers : e.parameters;
    const std::int64_t owned =
        s.use_distributed_optimizer
            ? e.dense_buffer / grid.dense_shards() + e.expert_buffer / grid.expert_shards()
            : e.parameters;
    stages.push_back({checked_mul(2, held), checked_mul(gradient, held), checked_mul(12, owned)});
  }
  return stages;
}

}  // namespace plan
