#include "libplan/strategy/entry_reader.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "libplan/strategy/pipeline_layout.h"

namespace plan {
namespace {

constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();

constexpr std::array<std::string_view, 3> kRequired{"world_size", "tensor_model_parallel_size",
                                                    "pipeline_model_parallel_size"};

// Other names under which Megatron knows the same thing.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kOtherNames{
    {{"decoder_first_pipeline_num_layers", "num_layers_in_first_pipeline_stage"},
     {"decoder_last_pipeline_num_layers", "num_layers_in_last_pipeline_stage"},
     {"num_virtual_stages_per_pipeline_rank", "virtual_pipeline_model_parallel_size"}}};

class EntryReader {
 public:
  explicit EntryReader(const JsonNode& entry) : entry_(entry) {
    reading_.position = entry.position;
  }

  EntryReading read() {
    for (std::size_t i = 0; i < entry_.keys.size(); ++i) read_key(i);
    check_required();
    check_mesh();
    check_ranks();
    return std::move(reading_);
  }

 private:
  void read_key(std::size_t index) {
    key_ = entry_.keys[index];
    value_ = &entry_.elements[index];
    key_position_ = entry_.key_positions[index];
    Strategy& s = reading_.strategy;
    const bool known = read_size_key(s) || read_flag_key(s) || read_other_key(s);
    if (!known) return unknown_key();
    reading_.positions[key_] = value_->position;
    if (value_->kind != JsonKind::Null) reading_.given.insert(key_);
  }

  bool read_size_key(Strategy& s) {
    if (key_ == "world_size") return size(s.world_size);
    if (key_ == "tensor_model_parallel_size") return size(s.tensor_model_parallel_size);
    if (key_ == "pipeline_model_parallel_size") return size(s.pipeline_model_parallel_size);
    if (key_ == "context_parallel_size") return size(s.context_parallel_size);
    if (key_ == "expert_model_parallel_size") return size(s.expert_model_parallel_size);
    if (key_ == "expert_tensor_parallel_size") return size(s.expert_tensor_parallel_size);
    if (key_ == "num_distributed_optimizer_instances") {
      return size(s.num_distributed_optimizer_instances);
    }
    if (key_ == "virtual_pipeline_model_parallel_size") {
      size(s.virtual_pipeline_model_parallel_size);
      // Megatron takes one virtual stage as none at all.
      if (s.virtual_pipeline_model_parallel_size == 1) s.virtual_pipeline_model_parallel_size = {};
      return true;
    }
    if (key_ == "num_layers_in_first_pipeline_stage") {
      return size(s.num_layers_in_first_pipeline_stage);
    }
    if (key_ == "num_layers_in_last_pipeline_stage") {
      return size(s.num_layers_in_last_pipeline_stage);
    }
    if (key_ == "ddp_bucket_size") return optional_integer(s.ddp_bucket_size, kInt64Max);
    if (key_ == "ddp_num_buckets") return size(s.ddp_num_buckets);
    return false;
  }

  bool read_flag_key(Strategy& s) {
    if (key_ == "sequence_parallel") return flag(s.sequence_parallel);
    if (key_ == "use_distributed_optimizer") return flag(s.use_distributed_optimizer);
    if (key_ == "account_for_embedding_in_pipeline_split") {
      return flag(s.account_for_embedding_in_pipeline_split);
    }
    if (key_ == "account_for_loss_in_pipeline_split") {
      return flag(s.account_for_loss_in_pipeline_split);
    }
    if (key_ == "use_torch_fsdp2") return flag(s.use_torch_fsdp2);
    if (key_ == "use_megatron_fsdp") return flag(s.use_megatron_fsdp);
    if (key_ == "overlap_grad_reduce") return flag(s.overlap_grad_reduce);
    if (key_ == "ddp_pad_buckets_for_high_nccl_busbw") {
      return flag(s.ddp_pad_buckets_for_high_nccl_busbw);
    }
    if (key_ == "accumulate_allreduce_grads_in_fp32") {
      return flag(s.accumulate_allreduce_grads_in_fp32);
    }
    if (key_ == "use_precision_aware_optimizer") return flag(s.use_precision_aware_optimizer);
    return false;
  }

  bool read_other_key(Strategy& s) {
    if (key_ == "name") {
      text(s.name);
      if (value_->kind == JsonKind::String && value_->text.empty()) {
        fault("S115", "name: expected at least one letter, found an empty name",
              "give it a name, or drop the key");
      }
      return true;
    }
    if (key_ == "order") return text(s.order);
    if (key_ == "pipeline_model_parallel_layout") return layout(s);
    if (key_ == "ranks") return ranks(s);
    if (key_ == "mesh") return mesh(s);
    if (key_ == "placements") return placements(s);
    return false;
  }

  void fault(const char* rule, std::string message, std::string fix) {
    fault_at(rule, value_->position, std::move(message), std::move(fix));
  }
  void fault_at(const char* rule, TextPosition position, std::string message, std::string fix) {
    reading_.faults.push_back({rule, key_, position, std::move(message), std::move(fix)});
  }

  bool is_null_of_optional() const {
    const bool required = std::find(kRequired.begin(), kRequired.end(), key_) != kRequired.end();
    return value_->kind == JsonKind::Null && !required;
  }

  // Empty if the value is no integer of 1..max; the fault is then recorded.
  std::optional<std::int64_t> integer(std::int64_t max) {
    const bool literal = value_->kind == JsonKind::Integer || value_->kind == JsonKind::BigInteger;
    if (!literal) {
      std::string fix = "write an integer without quotes, fraction or exponent";
      const std::string& digits = value_->text;
      const bool quoted =
          value_->kind == JsonKind::String && !digits.empty() && digits.size() < 10 &&
          std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (quoted) fix = "write " + std::to_string(std::stoll(digits));
      fault("S114", key_ + ": expected an integer, found " + describe(*value_), fix);
      return {};
    }
    if (value_->kind == JsonKind::BigInteger || value_->integer < 1 || value_->integer > max) {
      fault("S115",
            key_ + ": expected 1 to " + std::to_string(max) + ", found " +
                describe(*value_).substr(0, 80),
            "write a size from 1 on, or drop the key");
      return {};
    }
    return value_->integer;
  }

  // These return true: the key is known, whatever its value.
  bool size(std::int32_t& out) {
    if (is_null_of_optional()) return true;
    if (const auto value = integer(kInt32Max)) out = static_cast<std::int32_t>(*value);
    return true;
  }
  bool size(std::optional<std::int32_t>& out) {
    if (is_null_of_optional()) return true;
    if (const auto value = integer(kInt32Max)) out = static_cast<std::int32_t>(*value);
    return true;
  }
  bool optional_integer(std::optional<std::int64_t>& out, std::int64_t max) {
    if (!is_null_of_optional()) out = integer(max);
    return true;
  }
  template <class Flag>
  bool flag(Flag& out) {
    if (is_null_of_optional()) return true;
    if (value_->kind == JsonKind::Bool) {
      out = value_->boolean;
    } else {
      fault("S114", key_ + ": expected true or false, found " + describe(*value_),
            "write true or false, without quotes");
    }
    return true;
  }
  bool text(std::string& out) {
    if (is_null_of_optional()) return true;
    if (value_->kind == JsonKind::String) {
      out = value_->text;
    } else {
      fault("S114", key_ + ": expected a string, found " + describe(*value_), "put it in quotes");
    }
    return true;
  }

  bool layout(Strategy& s) {
    if (is_null_of_optional()) return true;
    if (value_->kind != JsonKind::String && value_->kind != JsonKind::Array) {
      fault("S114", key_ + ": expected a string or a list, found " + describe(*value_),
            "write a layout such as \"Et*7|t*8|t*8|t*9L\"");
      return true;
    }
    ExpandedLayout expanded = expand_pipeline_layout(*value_);
    if (auto* positions = std::get_if<std::vector<std::string>>(&expanded)) {
      s.pipeline_model_parallel_layout = std::move(*positions);
    } else {
      auto& wrong = std::get<LayoutFault>(expanded);
      fault_at("S321", wrong.position, wrong.message,
               "use E, t, m, L and |, with (..)*n and x*n, and no blanks");
    }
    return true;
  }

  bool ranks(Strategy& s) {
    if (is_null_of_optional()) return true;
    const char* fix = "list the device of each rank: [0, 1, 2, ...]";
    if (value_->kind != JsonKind::Array) {
      fault("S114", "ranks: expected a list of devices, found " + describe(*value_), fix);
      return true;
    }
    std::set<std::int64_t> seen;
    for (const JsonNode& device : value_->elements) {
      const bool literal = device.kind == JsonKind::Integer || device.kind == JsonKind::BigInteger;
      if (!literal) {
        fault_at("S114", device.position, "ranks: expected an integer, found " + describe(device),
                 fix);
        return true;
      }
      const bool fits =
          device.kind == JsonKind::Integer && device.integer >= 0 && device.integer <= kInt32Max;
      if (!fits || !seen.insert(device.integer).second) {
        fault_at("S115", device.position,
                 "ranks: expected different devices from 0 to 2147483647, found " +
                     describe(device) + (fits ? " twice" : ""),
                 fix);
        return true;
      }
    }
    for (const JsonNode& device : value_->elements) {
      s.ranks.push_back(DeviceId(static_cast<std::int32_t>(device.integer)));
    }
    return true;
  }

  bool mesh(Strategy& s) {
    if (is_null_of_optional()) return true;
    const char* fix = "write a list of [axis, size] pairs, the last axis fastest";
    if (value_->kind != JsonKind::Array || value_->elements.empty()) {
      fault("S114", "mesh: expected a list of [axis, size] pairs, found " + describe(*value_), fix);
      return true;
    }
    std::vector<MeshAxis> axes;
    for (const JsonNode& pair : value_->elements) {
      const bool well_formed = pair.kind == JsonKind::Array && pair.elements.size() == 2 &&
                               pair.elements[0].kind == JsonKind::String &&
                               pair.elements[1].kind == JsonKind::Integer;
      if (!well_formed) {
        fault_at("S114", pair.position, "mesh: expected a pair [axis, size]", fix);
        return true;
      }
      const std::string& name = pair.elements[0].text;
      const std::int64_t extent = pair.elements[1].integer;
      const bool twice = std::any_of(axes.begin(), axes.end(),
                                     [&](const MeshAxis& axis) { return axis.name == name; });
      if (name.empty() || twice || extent < 1 || extent > kInt32Max) {
        fault_at("S115", pair.position,
                 "mesh: expected a new axis name and a size of 1 to 2147483647, found " +
                     json_quote(name) + ", " + std::to_string(extent),
                 fix);
        return true;
      }
      axes.push_back({name, static_cast<std::int32_t>(extent)});
    }
    s.mesh = std::move(axes);
    return true;
  }

  bool placements(Strategy& s) {
    if (is_null_of_optional()) return true;
    if (value_->kind == JsonKind::Object) {
      s.placements_json = canonical_json(*value_);
    } else {
      fault("S114", "placements: expected an object, found " + describe(*value_),
            "give each tensor a list of one placement for each mesh axis");
    }
    return true;
  }

  void unknown_key() {
    std::string near;
    for (const auto& [other, ours] : kOtherNames) {
      if (key_ == other) near = ours;
    }
    if (near.empty()) near = nearest_word(key_, known_keys());
    reading_.faults.push_back({"S112", key_, key_position_, "unknown key " + json_quote(key_),
                               near.empty() ? "drop it" : "write " + json_quote(near)});
  }

  static const std::vector<std::string>& known_keys() {
    static const std::vector<std::string> keys{"name",
                                               "world_size",
                                               "tensor_model_parallel_size",
                                               "pipeline_model_parallel_size",
                                               "context_parallel_size",
                                               "expert_model_parallel_size",
                                               "expert_tensor_parallel_size",
                                               "num_distributed_optimizer_instances",
                                               "virtual_pipeline_model_parallel_size",
                                               "num_layers_in_first_pipeline_stage",
                                               "num_layers_in_last_pipeline_stage",
                                               "account_for_embedding_in_pipeline_split",
                                               "account_for_loss_in_pipeline_split",
                                               "pipeline_model_parallel_layout",
                                               "sequence_parallel",
                                               "use_distributed_optimizer",
                                               "order",
                                               "ranks",
                                               "use_torch_fsdp2",
                                               "use_megatron_fsdp",
                                               "mesh",
                                               "placements",
                                               "overlap_grad_reduce",
                                               "ddp_bucket_size",
                                               "ddp_num_buckets",
                                               "ddp_pad_buckets_for_high_nccl_busbw",
                                               "accumulate_allreduce_grads_in_fp32",
                                               "use_precision_aware_optimizer"};
    return keys;
  }

  void check_required() {
    if (entry_.find("mesh") != nullptr && entry_.find("mesh")->kind != JsonKind::Null) return;
    for (const std::string_view required : kRequired) {
      if (entry_.find(required) != nullptr) continue;
      reading_.faults.push_back({"S113", std::string(required), entry_.position,
                                 "required key " + json_quote(required) + " is missing",
                                 "add " + json_quote(required)});
    }
  }

  // A mesh gives the world size; placements need one.
  void check_mesh() {
    Strategy& s = reading_.strategy;
    if (s.mesh.empty()) {
      if (!s.placements_json.empty() && entry_.find("mesh") == nullptr) {
        reading_.faults.push_back({"S113", "mesh", reading_.positions["placements"],
                                   "placements need a mesh, found none",
                                   "add \"mesh\": [[\"dp\", 8]]"});
      }
      return;
    }
    key_ = "mesh";
    value_ = entry_.find("mesh");
    std::int64_t product = 1;
    for (const MeshAxis& axis : s.mesh) {
      product *= axis.size;
      if (product <= kInt32Max) continue;
      return fault("S115", "mesh: expected 1 to 2147483647 devices, found more", "shrink an axis");
    }
    if (reading_.gives("world_size") && s.world_size != product) {
      return fault("S115",
                   "mesh: expected " + std::to_string(s.world_size) +
                       " devices as world_size says, found " + std::to_string(product),
                   "drop world_size");
    }
    s.world_size = static_cast<std::int32_t>(product);
  }

  void check_ranks() {
    const Strategy& s = reading_.strategy;
    const bool counted = reading_.gives("world_size") || !s.mesh.empty();
    if (!reading_.gives("ranks") || !counted) return;
    if (static_cast<std::int64_t>(s.ranks.size()) == s.world_size) return;
    key_ = "ranks";
    value_ = entry_.find("ranks");
    fault("S115",
          "ranks: expected " + std::to_string(s.world_size) +
              " devices, one for each rank, found " + std::to_string(s.ranks.size()),
          "list the device of each rank, or drop the key");
  }

  const JsonNode& entry_;
  EntryReading reading_;
  std::string key_;  // the key at hand, and its value
  const JsonNode* value_ = nullptr;
  TextPosition key_position_;
};

JsonNode with_sorted_keys(const JsonNode& node) {
  JsonNode sorted = node;
  std::vector<std::size_t> order(node.elements.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (node.kind == JsonKind::Object) {
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return node.keys[a] < node.keys[b]; });
    std::sort(sorted.keys.begin(), sorted.keys.end());
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    sorted.elements[i] = with_sorted_keys(node.elements[order[i]]);
  }
  return sorted;
}

}  // namespace

bool EntryReading::usable(const std::string& key) const {
  return std::none_of(faults.begin(), faults.end(),
                      [&](const KeyFault& fault) { return fault.key == key; });
}

bool EntryReading::gives(const std::string& key) const {
  return given.contains(key) && usable(key);
}

EntryReading read_strategy_entry(const JsonNode& entry) { return EntryReader(entry).read(); }

std::string canonical_json(const JsonNode& node) { return to_compact_json(with_sorted_keys(node)); }

}  // namespace plan
