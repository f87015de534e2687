// Flat buffers of Megatron-Core's DistributedDataParallel with the distributed optimizer.
//
// 0.11 pads a shared embedding's start to the bucket alignment only when the position is no
// multiple of the group size, and does not advance the position over padding that closing the
// bucket adds; the embedding then starts inside the previous bucket's padding, belongs to two
// buckets, and the optimizer's constructor fails on a rank that owns parts of it in both.
#include <algorithm>
#include <tuple>

#include "libplan/base/checked.h"
#include "libplan/base/error.h"
#include "libplan/layout/megatron_chunk.h"

namespace plan {
namespace {

constexpr std::int64_t kParamAlignment = 64;            // elements
constexpr std::int64_t kBucketAlignment = 128;          // elements, with the group size
constexpr std::int64_t kHighBusBandwidthUnit = 65'536;  // elements

class BufferWriter {
 public:
  BufferWriter(FlatBuffer& buffer, const MegatronOptions& options,
               std::optional<std::int64_t> bucket_size, bool distributed)
      : buffer_(buffer), options_(options), bucket_size_(bucket_size), distributed_(distributed) {
    divisor_ = checked_lcm(buffer.shards, kBucketAlignment);
    if (options.ddp_pad_buckets_for_high_nccl_busbw) {
      divisor_ = checked_lcm(divisor_, kHighBusBandwidthUnit);
    }
  }

  void add(std::int32_t index, const LocalParam& param) {
    if (distributed_) {
      position_ = ceil_to(position_, kParamAlignment);
      if (param.shared_embedding && position_ > bucket_begin_) start_shared_embedding();
    }
    const Interval range{position_, checked_add(position_, param.numel)};
    buffer_.params.push_back({index, range, static_cast<std::int32_t>(buffer_.buckets.size())});
    position_ = range.end;
    const bool full = bucket_size_ && position_ - bucket_begin_ >= *bucket_size_;
    if (full || (distributed_ && param.shared_embedding)) close(position_);
  }

  void finish() {
    // Also for parameters of no elements, so that every parameter has its bucket.
    const bool open =
        !buffer_.params.empty() &&
        static_cast<std::size_t>(buffer_.params.back().bucket) == buffer_.buckets.size();
    if (open) close(position_);
    buffer_.numel = buffer_.buckets.empty() ? 0 : buffer_.buckets.back().range.end;
    for (const Bucket& bucket : buffer_.buckets) {
      buffer_.numel_unpadded = checked_add(buffer_.numel_unpadded, bucket.numel_unpadded);
    }
  }

 private:
  // The bucket before a shared embedding ends here.
  void start_shared_embedding() {
    const std::int64_t position = position_;
    close(position);
    if (options_.version != MegatronVersion::V011 || position == position_) return;
    if (position % buffer_.shards == 0) {
      position_ = position;
    } else {
      // Padded before the bucket was closed, so that the padding counts as its content.
      Bucket& bucket = buffer_.buckets.back();
      bucket.numel_unpadded = bucket.range.length();
    }
  }

  void close(std::int64_t end) {
    const std::int64_t padded = distributed_ ? ceil_to(end, divisor_) : end;
    buffer_.buckets.push_back({{bucket_begin_, padded}, end - bucket_begin_});
    bucket_begin_ = padded;
    position_ = padded;
  }

  FlatBuffer& buffer_;
  const MegatronOptions& options_;
  std::optional<std::int64_t> bucket_size_;
  bool distributed_;
  std::int64_t divisor_ = 1;
  std::int64_t position_ = 0;
  std::int64_t bucket_begin_ = 0;
};

}  // namespace

MegatronOptions with_entry(MegatronOptions options, const Strategy& strategy) {
  const auto choose = [](auto& option, const auto& entry) {
    if (entry) option = *entry;
  };
  choose(options.overlap_grad_reduce, strategy.overlap_grad_reduce);
  choose(options.ddp_pad_buckets_for_high_nccl_busbw, strategy.ddp_pad_buckets_for_high_nccl_busbw);
  choose(options.accumulate_allreduce_grads_in_fp32, strategy.accumulate_allreduce_grads_in_fp32);
  choose(options.ddp_bucket_size, strategy.ddp_bucket_size);
  choose(options.ddp_num_buckets, strategy.ddp_num_buckets);
  return options;
}

std::vector<OwnedRange> owned_ranges(const MegatronChunk& chunk, const FlatBuffer& buffer,
                                     std::int32_t index) {
  PLAN_CHECK(index >= 0 && index < buffer.shards);
  std::vector<OwnedRange> owned;
  for (std::size_t b = 0; b < buffer.buckets.size(); ++b) {
    const Interval bucket = buffer.buckets[b].range;
    const std::int64_t part = bucket.length() / buffer.shards;
    PLAN_CHECK(part * buffer.shards == bucket.length());
    const std::int64_t begin = checked_add(bucket.begin, checked_mul(part, index));
    const Interval mine{begin, begin + part};
    auto flat = std::partition_point(buffer.params.begin(), buffer.params.end(),
                                     [&](const FlatParam& p) { return p.range.end <= mine.begin; });
    for (; flat != buffer.params.end() && flat->range.begin < mine.end; ++flat) {
      const auto param = static_cast<std::int32_t>(flat - buffer.params.begin());
      const Interval common = intersect(flat->range, mine);
      if (common.empty()) continue;
      if (!owned.empty() && owned.back().param == param) {
        throw Error(
            ErrorCode::Unsupported,
            "parts of this parameter lie in two buckets (Megatron-Core 0.11 starts a shared "
            "embedding inside the padding of the bucket before it, here at " +
                std::to_string(flat->range.begin) +
                "), where Megatron-Core fails to build its optimizer; use 0.13 or newer",
            chunk.params[static_cast<std::size_t>(flat->param)].name);
      }
      owned.push_back({param,
                       static_cast<std::int32_t>(b),
                       common,
                       {common.begin - flat->range.begin, common.end - flat->range.begin}});
    }
  }
  return owned;
}

std::vector<FlatBuffer> flat_buffers(const std::vector<LocalParam>& params, const CutSizes& cuts,
                                     const MegatronOptions& options,
                                     std::optional<std::int64_t> bucket_size, bool distributed) {
  std::vector<FlatBuffer> buffers;
  for (const bool expert : {false, true}) {
    for (const LocalParam& param : params) {
      if (!param.trainable || param.buffer || param.expert_parallel != expert) continue;
      const bool known = std::any_of(buffers.begin(), buffers.end(), [&](const FlatBuffer& b) {
        return b.expert == expert && b.param_dtype == param.dtype;
      });
      if (known) continue;
      FlatBuffer buffer;
      buffer.expert = expert;
      buffer.param_dtype = param.dtype;
      buffer.grad_dtype = options.accumulate_allreduce_grads_in_fp32 ? Dtype::Float32 : param.dtype;
      if (distributed) buffer.shards = expert ? cuts.expert_shards : cuts.dense_shards;
      buffers.push_back(std::move(buffer));
    }
  }
  for (FlatBuffer& buffer : buffers) {
    BufferWriter writer(buffer, options, bucket_size, distributed);
    for (std::size_t i = params.size(); i-- > 0;) {
      const LocalParam& param = params[i];
      if (!param.trainable || param.buffer || param.expert_parallel != buffer.expert ||
          param.dtype != buffer.param_dtype) {
        continue;
      }
      writer.add(static_cast<std::int32_t>(i), param);
    }
    writer.finish();
  }
  return buffers;
}

}  // namespace plan
