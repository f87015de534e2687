// The canonical JSON of a strategy: keys in the order of the struct, defaults left out.
#include <string>

#include "libplan/base/json_tree.h"
#include "libplan/strategy/pipeline_layout.h"
#include "libplan/strategy/strategy.h"

namespace plan {
namespace {

class ObjectWriter {
 public:
  void raw(const char* key, const std::string& json) {
    text_ += (text_.empty() ? "" : ", ") + json_quote(key) + ": " + json;
  }
  void size(const char* key, std::int64_t value, std::int64_t default_value) {
    if (value != default_value) raw(key, std::to_string(value));
  }
  template <class Integer>
  void size(const char* key, const std::optional<Integer>& value) {
    if (value) raw(key, std::to_string(*value));
  }
  void flag(const char* key, bool value, bool default_value) {
    if (value != default_value) raw(key, value ? "true" : "false");
  }
  void flag(const char* key, const std::optional<bool>& value) {
    if (value) raw(key, *value ? "true" : "false");
  }
  std::string json() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

void write_sizes(const Strategy& s, ObjectWriter& out) {
  if (s.mesh.empty()) {
    out.raw("world_size", std::to_string(s.world_size));
    out.raw("tensor_model_parallel_size", std::to_string(s.tensor_model_parallel_size));
    out.raw("pipeline_model_parallel_size", std::to_string(s.pipeline_model_parallel_size));
  } else {
    out.size("tensor_model_parallel_size", s.tensor_model_parallel_size, 1);
    out.size("pipeline_model_parallel_size", s.pipeline_model_parallel_size, 1);
  }
  out.size("context_parallel_size", s.context_parallel_size, 1);
  out.size("expert_model_parallel_size", s.expert_model_parallel_size, 1);
  out.size("expert_tensor_parallel_size", s.expert_tensor_parallel_size);
  out.size("num_distributed_optimizer_instances", s.num_distributed_optimizer_instances, 1);
  out.size("virtual_pipeline_model_parallel_size", s.vpp(), 1);
  out.size("num_layers_in_first_pipeline_stage", s.num_layers_in_first_pipeline_stage);
  out.size("num_layers_in_last_pipeline_stage", s.num_layers_in_last_pipeline_stage);
  out.flag("account_for_embedding_in_pipeline_split", s.account_for_embedding_in_pipeline_split,
           false);
  out.flag("account_for_loss_in_pipeline_split", s.account_for_loss_in_pipeline_split, false);
  if (s.pipeline_model_parallel_layout) {
    out.raw("pipeline_model_parallel_layout",
            json_quote(join_pipeline_layout(*s.pipeline_model_parallel_layout)));
  }
}

void write_devices(const Strategy& s, ObjectWriter& out) {
  if (!s.ranks.empty()) {
    std::string text = "[";
    for (const DeviceId device : s.ranks) {
      text += (text.size() == 1 ? "" : ",") + std::to_string(device.value);
    }
    out.raw("ranks", text + "]");
  }
  if (!s.mesh.empty()) {
    std::string text = "[";
    for (const MeshAxis& axis : s.mesh) {
      text += (text.size() == 1 ? "[" : ",[") + json_quote(axis.name) + "," +
              std::to_string(axis.size) + "]";
    }
    out.raw("mesh", text + "]");
  }
  if (!s.placements_json.empty()) out.raw("placements", s.placements_json);
}

}  // namespace

std::string to_json(const Strategy& s) {
  ObjectWriter out;
  if (!s.name.empty()) out.raw("name", json_quote(s.name));
  write_sizes(s, out);
  out.flag("sequence_parallel", s.sequence_parallel);
  out.flag("use_distributed_optimizer", s.use_distributed_optimizer, true);
  if (s.order != Strategy{}.order) out.raw("order", json_quote(s.order));
  out.flag("use_torch_fsdp2", s.use_torch_fsdp2, false);
  out.flag("use_megatron_fsdp", s.use_megatron_fsdp, false);
  write_devices(s, out);
  out.flag("overlap_grad_reduce", s.overlap_grad_reduce);
  out.size("ddp_bucket_size", s.ddp_bucket_size);
  out.size("ddp_num_buckets", s.ddp_num_buckets);
  out.flag("ddp_pad_buckets_for_high_nccl_busbw", s.ddp_pad_buckets_for_high_nccl_busbw);
  out.flag("accumulate_allreduce_grads_in_fp32", s.accumulate_allreduce_grads_in_fp32);
  out.flag("use_precision_aware_optimizer", s.use_precision_aware_optimizer);
  return out.json();
}

}  // namespace plan
