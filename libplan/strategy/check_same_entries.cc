// S110: two entries that mean the same strategy.
#include <map>

#include "libplan/base/error.h"
#include "libplan/strategy/check_entry.h"
#include "libplan/strategy/pipeline_layout.h"
#include "libplan/strategy/pipeline_split.h"
#include "libplan/strategy/rank_order.h"

namespace plan::check {
namespace {

// Tokens whose size is above 1 in one of the grids, fastest first.
std::string resolved_order(const Strategy& s, MegatronVersion version) {
  const GridSizes dense = dense_sizes(s);
  const GridSizes expert = expert_sizes(s);
  std::string text;
  for (const Token token : resolve_order(s, version).tokens) {
    const auto at = static_cast<std::size_t>(token);
    if (dense[at] > 1 || expert[at] > 1) text += std::string(name_of(token)) + "-";
  }
  return text;
}

std::string optional_text(const auto& value) {
  return value ? std::to_string(*value) : std::string("-");
}

bool devices_are_ranks(const Strategy& s) {
  for (std::size_t i = 0; i < s.ranks.size(); ++i) {
    if (s.ranks[i].value != static_cast<std::int32_t>(i)) return false;
  }
  return true;
}

// S113-S115 are errors of the keys; everything else that must hold is kept by the entry.
bool resolvable(const Entry& entry) {
  if (!entry.checkable || entry.reading.given.contains("mesh")) return false;
  for (const KeyFault& fault : entry.reading.faults) {
    if (fault.rule != "S112") return false;
  }
  return entry.rank_rules_ok && entry.pipeline_ok;
}

}  // namespace

std::string resolved_text(const Strategy& s, MegatronVersion version) {
  std::string text;
  const auto add = [&](const std::string& value) { text += value + "/"; };
  for (const std::int32_t size :
       {s.world_size, s.tensor_model_parallel_size, s.pipeline_model_parallel_size,
        s.context_parallel_size, s.expert_model_parallel_size, s.etp(),
        s.num_distributed_optimizer_instances, virtual_stages(s)}) {
    add(std::to_string(size));
  }
  for (const bool flag :
       {s.account_for_embedding_in_pipeline_split, s.account_for_loss_in_pipeline_split,
        s.sequence_parallel.value_or(s.tensor_model_parallel_size > 1), s.use_distributed_optimizer,
        s.use_torch_fsdp2, s.use_megatron_fsdp}) {
    add(flag ? "1" : "0");
  }
  add(optional_text(s.num_layers_in_first_pipeline_stage));
  add(optional_text(s.num_layers_in_last_pipeline_stage));
  add(s.pipeline_model_parallel_layout ? join_pipeline_layout(*s.pipeline_model_parallel_layout)
                                       : "-");
  add(resolved_order(s, version));
  add(optional_text(s.overlap_grad_reduce));
  add(optional_text(s.ddp_bucket_size));
  add(optional_text(s.ddp_num_buckets));
  add(optional_text(s.ddp_pad_buckets_for_high_nccl_busbw));
  add(optional_text(s.accumulate_allreduce_grads_in_fp32));
  add(optional_text(s.use_precision_aware_optimizer));
  if (!devices_are_ranks(s)) {
    for (const DeviceId device : s.ranks) add(std::to_string(device.value));
  }
  return text;
}

void check_same_entries(std::vector<Entry>& entries, const ModelFacts& facts,
                        const Options& options, std::vector<Diagnostic>& findings) {
  std::map<std::string, const Entry*> first;
  for (Entry& entry : entries) {
    if (!resolvable(entry)) continue;
    EntryChecker c(entry, facts, options, findings);
    const auto [known, inserted] =
        first.try_emplace(resolved_text(entry.reading.strategy, c.version()), &entry);
    if (inserted) continue;
    const Entry& earlier = *known->second;
    c.warning("S110", kAll, "",
              "same strategy as entry " + num(earlier.index) +
                  (earlier.name.empty() ? "" : " " + quoted(earlier.name)) +
                  ", expected another; the switch moves nothing",
              "drop one of the two");
  }
}

}  // namespace plan::check
