// Flat buffers of Megatron-Core's DistributedDataParallel with the distributed optimizer.
//
// 0.11 pads a shared embedding's start to the bucket alignment only when the position is no
// multiple of the group size, and does not advance the position over padding that closing the
// bucket adds; the embedding then starts inside the previous bucket's padding and the optimizer's
// constructor fails.
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
      if (param.shared_embedding && position_ > bucket_begin_) start_shared_embedding(param);
    }
    const Interval range{position_, checked_add(position_, param.numel)};
    buffer_.params.push_back({index, range, static_cast<std::int32_t>(buffer_.buckets.size())});
    position_ = range.end;
    const bool full = bucket_size_ && position_ - bucket_begin_ >= *bucket_size_;
    if (full || (distributed_ && param.shared_embedding)) close(position_);
  }

  void finish() {
    if (position_ > bucket_begin_) close(position_);
    buffer_.numel = buffer_.buckets.empty() ? 0 : buffer_.buckets.back().range.end;
    for (const Bucket& bucket : buffer_.buckets) {
      buffer_.numel_unpadded = checked_add(buffer_.numel_unpadded, bucket.numel_unpadded);
    }
  }

 private:
  void start_shared_embedding(const LocalParam& param) {
    if (options_.version == MegatronVersion::V011 && position_ % buffer_.shards == 0 &&
        position_ % divisor_ != 0) {
      throw Error(
          ErrorCode::Unsupported,
          "Megatron-Core 0.11 starts this shared embedding inside the padding of the bucket "
          "before it (position " +
              std::to_string(position_) + ", bucket alignment " + std::to_string(divisor_) +
              ") and fails when it builds the optimizer; use 0.13 or newer",
          param.name);
    }
    close(position_);
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

Interval FlatBuffer::owned(const Bucket& bucket, std::int32_t index) const {
  const std::int64_t part = bucket.range.length() / shards;
  PLAN_CHECK(part * shards == bucket.range.length());
  const std::int64_t begin = checked_add(bucket.range.begin, checked_mul(part, index));
  return {begin, begin + part};
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
      buffer.shards = expert ? cuts.expert_shards : cuts.dense_shards;
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
