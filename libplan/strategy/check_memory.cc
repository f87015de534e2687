// S801, S802: does the training state of one entry fit. S803 is in check_switches.cc.
#include <algorithm>

#include "libplan/base/checked.h"
#include "libplan/strategy/check_entry.h"
#include "libplan/strategy/rank_grid.h"
#include "libplan/strategy/stage_memory.h"

namespace plan::check {
namespace {

constexpr std::int32_t kMostInstanceCut = 64;

// "144.1": GiB with one digit, rounded.
std::string gib(std::int64_t bytes) {
  constexpr std::int64_t kTenth = (std::int64_t{1} << 30) / 10;
  const std::int64_t tenths = bytes / kTenth + (bytes % kTenth * 2 >= kTenth ? 1 : 0);
  return num(tenths / 10) + "." + num(tenths % 10);
}

std::optional<std::int64_t> largest_need(const EntryChecker& c, const Strategy& s) {
  const auto stages = stage_bytes(*c.facts.model, s, c.version(), buffer_options(s, c.options));
  if (!stages) return {};
  std::int64_t largest = 0;
  for (const StageBytes& bytes : *stages) largest = std::max(largest, bytes.total());
  return largest;
}

bool fits(const EntryChecker& c, const Strategy& s) {
  const std::optional<std::int64_t> need = largest_need(c, s);
  return need && *need <= *c.options.memory_limit;
}

// The least change that makes the entry fit: fewer instances, then larger tp, pp or world size.
std::string fix_of_memory(const EntryChecker& c) {
  std::string fix;
  const auto propose = [&](const std::string& text) { fix += (fix.empty() ? "" : ", or ") + text; };
  const std::int32_t instances = c.s.num_distributed_optimizer_instances;
  for (std::int32_t divisor = 2; divisor <= instances && divisor <= kMostInstanceCut; ++divisor) {
    if (instances % divisor != 0) continue;
    Strategy other = c.s;
    other.num_distributed_optimizer_instances = instances / divisor;
    if (!fits(c, other)) continue;
    propose("set num_distributed_optimizer_instances to " + num(instances / divisor));
    break;
  }
  const auto grow = [&](const char* key, std::int32_t Strategy::*size) {
    Strategy other = c.s;
    for (int step = 0; step < 3 && other.*size <= INT32_MAX / 2; ++step) {
      other.*size *= 2;
      if (!fits(c, other)) continue;
      propose("set " + std::string(key) + " to " + num(other.*size));
      return;
    }
  };
  grow(c.kTp, &Strategy::tensor_model_parallel_size);
  grow(c.kPp, &Strategy::pipeline_model_parallel_size);
  grow(c.kWorld, &Strategy::world_size);
  return fix.empty() ? "cut the model further, or use fewer optimizer instances" : fix;
}

}  // namespace

BufferOptions buffer_options(const Strategy& s, const Options& options) {
  BufferOptions buffers;
  buffers.overlap_grad_reduce = s.overlap_grad_reduce.value_or(options.overlap_grad_reduce);
  buffers.ddp_bucket_size = s.ddp_bucket_size ? s.ddp_bucket_size : options.ddp_bucket_size;
  buffers.ddp_num_buckets = s.ddp_num_buckets ? s.ddp_num_buckets : options.ddp_num_buckets;
  buffers.pad_for_high_busbw =
      s.ddp_pad_buckets_for_high_nccl_busbw.value_or(options.ddp_pad_buckets_for_high_nccl_busbw);
  buffers.grads_in_fp32 =
      s.accumulate_allreduce_grads_in_fp32.value_or(options.accumulate_allreduce_grads_in_fp32);
  return buffers;
}

void check_memory(EntryChecker& c) {
  if (!c.options.memory_limit || !c.facts.model || !c.entry.rank_rules_ok) return;
  const bool readable =
      c.usable({c.kInstances, c.kDistributed, c.kVirtual, c.kFirst, c.kLast, c.kEmbedding, c.kLoss,
                c.kLayout, "use_torch_fsdp2", "use_megatron_fsdp", "overlap_grad_reduce",
                "ddp_bucket_size", "ddp_num_buckets", "ddp_pad_buckets_for_high_nccl_busbw",
                "accumulate_allreduce_grads_in_fp32"});
  if (!readable) return;
  const auto stages = stage_bytes(*c.facts.model, c.s, c.version(), buffer_options(c.s, c.options));
  if (!stages) return;
  const auto fullest = std::max_element(
      stages->begin(), stages->end(),
      [](const StageBytes& a, const StageBytes& b) { return a.total() < b.total(); });
  const std::int64_t limit = *c.options.memory_limit;
  const std::int64_t need = fullest->total();
  const std::int32_t rank =
      RankGrid::make(c.s, c.version())
          .first_rank_of_stage(static_cast<std::int32_t>(fullest - stages->begin()));
  const std::string message = "rank " + num(rank) + " needs " + gib(need) + " GiB (weights " +
                              gib(fullest->weights) + ", gradients " + gib(fullest->gradients) +
                              ", optimizer " + gib(fullest->optimizer) + "), limit " + gib(limit) +
                              " GiB";
  if (need > limit) {
    c.error("S801", kAll, "", message, fix_of_memory(c));
  } else if (need > limit - ceil_div(limit, 10)) {
    c.warning("S802", kAll, "",
              message + ": little is left for activations, communicators and the allocator");
  }
}

}  // namespace plan::check
