#include "libplan/layout/mesh_layout.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "libplan/base/checked.h"
#include "libplan/base/error.h"
#include "libplan/base/json_tree.h"
#include "libplan/layout/placements.h"
#include "libplan/layout/state_lanes.h"

namespace plan {
namespace {

constexpr std::int64_t kMaxBoxes = std::int64_t{1} << 16;

struct PlacementRule {
  std::string pattern;
  std::vector<Placement> placements;
};

// "*" stands for any run of characters.
bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0;
  std::size_t star = std::string_view::npos;  // last "*" seen, and where its run ends
  std::size_t run_end = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      run_end = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++run_end;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

// Most particular first; rules come in the order of their patterns' bytes.
void sort_rules(std::vector<PlacementRule>& rules) {
  const auto key = [](const PlacementRule& rule) {
    const auto stars = std::count(rule.pattern.begin(), rule.pattern.end(), '*');
    return std::pair(stars == 0, static_cast<std::int64_t>(rule.pattern.size()) - stars);
  };
  std::stable_sort(rules.begin(), rules.end(),
                   [&](const PlacementRule& a, const PlacementRule& b) { return key(a) > key(b); });
}

std::vector<PlacementRule> read_rules(const Strategy& strategy, const Model& model) {
  const std::string source = "placements of strategy " + json_quote(strategy.name);
  if (strategy.placements_json.empty()) {
    throw Error(ErrorCode::BadInput,
                "expected an object from tensor names to placements, found none", source);
  }
  const JsonDocument document = parse_json(strategy.placements_json, source);
  std::vector<PlacementRule> rules;
  for (const auto& [pattern, list] : JsonCursor::root(document).members()) {
    PlacementRule& rule = rules.emplace_back();
    rule.pattern = pattern;
    for (const JsonCursor& text : list.elements()) {
      rule.placements.push_back(parse_placement(text.as_string(), source + ":" + text.pointer()));
    }
    const bool used = std::any_of(
        model.tensors.begin(), model.tensors.end(),
        [&, &name = pattern](const Tensor& tensor) { return matches(name, tensor.name); });
    if (used) continue;
    std::vector<std::string> names;
    for (const Tensor& tensor : model.tensors) names.push_back(tensor.name);
    const std::string near = nearest_word(pattern, names);
    list.fail("expected the name of a tensor of the model, or a pattern of one" +
              (near.empty() ? std::string() : "; the nearest name is " + json_quote(near)));
  }
  std::sort(rules.begin(), rules.end(),
            [](const PlacementRule& a, const PlacementRule& b) { return a.pattern < b.pattern; });
  sort_rules(rules);
  return rules;
}

void require_mesh_only(const Strategy& strategy) {
  const auto refuse = [&](const char* key, std::int64_t found) {
    throw Error(
        ErrorCode::BadInput,
        std::string("expected no ") + key + " beside a mesh, found " + std::to_string(found),
        strategy.name);
  };
  const Strategy& s = strategy;
  for (const auto& [key, size] :
       {std::pair("tensor_model_parallel_size", s.tensor_model_parallel_size),
        std::pair("pipeline_model_parallel_size", s.pipeline_model_parallel_size),
        std::pair("context_parallel_size", s.context_parallel_size),
        std::pair("expert_model_parallel_size", s.expert_model_parallel_size),
        std::pair("expert_tensor_parallel_size", s.etp()),
        std::pair("num_distributed_optimizer_instances", s.num_distributed_optimizer_instances),
        std::pair("virtual_pipeline_model_parallel_size", s.vpp())}) {
    if (size > 1) refuse(key, size);
  }
  if (s.use_megatron_fsdp) {
    throw Error(ErrorCode::Unsupported, "Megatron FSDP is not laid out over a mesh", s.name);
  }
}

// A part of one logical dimension that is a box in the canonical ones.
struct DimPiece {
  std::int64_t local_begin = 0;
  Interval block;  // only where the dimension has a block axis
  Interval inner;
};

// Cuts runs of a merged dimension of blocks of `extent` rows: a part of a block, whole blocks, and
// a part of a block again.
std::vector<DimPiece> pieces_of_runs(const std::vector<Interval>& runs, std::int64_t extent) {
  std::vector<DimPiece> pieces;
  std::int64_t local = 0;
  for (const Interval& run : runs) {
    for (std::int64_t at = run.begin; at < run.end;) {
      const std::int64_t block = at / extent;
      const std::int64_t first = at % extent;
      const std::int64_t whole = first == 0 ? (run.end - at) / extent : 0;
      DimPiece piece{local, {block, block + std::max<std::int64_t>(whole, 1)}, {0, extent}};
      if (whole == 0) piece.inner = {first, std::min(extent, first + run.end - at)};
      const std::int64_t length = piece.block.length() * piece.inner.length();
      pieces.push_back(piece);
      at += length;
      local += length;
    }
  }
  return pieces;
}

// The shards of a contiguous local tensor that is the product of the content's runs.
std::vector<Shard> shards_of(TensorId id, const Tensor& tensor, const LocalContent& content) {
  const Dims strides = contiguous_strides(content.local_shape());
  std::vector<Shard> shards(1);
  shards[0].tensor = id;
  for (int dim = 0, axis = 0; dim < strides.count; ++dim, ++axis) {
    const bool blocks = axis == tensor.block_axis;
    if (blocks) ++axis;
    const std::vector<DimPiece> pieces =
        pieces_of_runs(content.runs[static_cast<std::size_t>(dim)], tensor.shape[axis]);
    const std::int64_t count = checked_mul(static_cast<std::int64_t>(shards.size()),
                                           static_cast<std::int64_t>(pieces.size()));
    if (count > kMaxBoxes) {
      throw Error(ErrorCode::Unsupported,
                  "expected at most " + std::to_string(kMaxBoxes) +
                      " boxes on one member of the mesh, found " + std::to_string(count),
                  "tensor " + tensor.name);
    }
    std::vector<Shard> longer;
    for (const Shard& shard : shards) {
      for (const DimPiece& piece : pieces) {
        Shard& next = longer.emplace_back(shard);
        if (blocks) {
          next.box[next.box.count++] = piece.block;
          next.strides_elems.push_back(checked_mul(strides[dim], tensor.shape[axis]));
        }
        next.box[next.box.count++] = piece.inner;
        next.strides_elems.push_back(strides[dim]);
        next.offset_elems += piece.local_begin * strides[dim];
      }
    }
    shards = std::move(longer);
  }
  return shards;
}

class MeshBuilder {
 public:
  MeshBuilder(const Model& model, const Strategy& strategy, const std::vector<StateKind>& states)
      : model_(model), strategy_(strategy), lanes_(model, states) {
    for (const MeshAxis& axis : strategy.mesh) sizes_.push_back(axis.size);
    layout_.states = lanes_.states();
    for (const Tensor& tensor : model.tensors) {
      layout_.tensors.push_back({tensor.name, tensor.shape, tensor.block_axis, false});
    }
    place_tensors();
    sort_groups();
  }

  Layout run() {
    for (std::int32_t position = 0; position < strategy_.world_size; ++position) {
      DeviceShards& device = layout_.devices.emplace_back();
      device.device = strategy_.device_of(position);
      for (std::size_t i = 0; i < model_.tensors.size(); ++i) add(i, position, device.storages);
    }
    std::sort(layout_.devices.begin(), layout_.devices.end(),
              [](const DeviceShards& a, const DeviceShards& b) { return a.device < b.device; });
    return std::move(layout_);
  }

 private:
  void place_tensors() {
    const std::vector<PlacementRule> rules = read_rules(strategy_, model_);
    for (const Tensor& tensor : model_.tensors) {
      const std::string place = "tensor " + tensor.name;
      const auto rule = std::find_if(rules.begin(), rules.end(), [&](const PlacementRule& r) {
        return matches(r.pattern, tensor.name);
      });
      if (rule == rules.end()) {
        throw Error(ErrorCode::BadInput,
                    "expected placements for each tensor, found none; add "
                    "\"*\" for all others",
                    place);
      }
      const Dims shape = tensor.logical_shape();
      placements_.push_back(checked_placements(shape, static_cast<std::int32_t>(sizes_.size()),
                                               rule->placements, place));
      if (strategy_.use_torch_fsdp2) check_fsdp2(shape, sizes_, placements_.back(), place);
    }
  }

  // Torch orders the members of a group by rank, which is the mesh coordinate only in rows that
  // ascend.
  void sort_groups() {
    std::int32_t stride = strategy_.world_size;
    for (std::size_t axis = 0; axis < sizes_.size(); ++axis) {
      stride /= sizes_[axis];
      std::vector<std::int32_t>& places =
          sorted_place_.emplace_back(static_cast<std::size_t>(strategy_.world_size));
      bool ascending = true;
      for (std::int32_t position = 0; position < strategy_.world_size; ++position) {
        const std::int32_t own = position / stride % sizes_[axis];
        std::int32_t place = own;
        if (!strategy_.ranks.empty()) place = count_below(position, stride, own, sizes_[axis]);
        places[static_cast<std::size_t>(position)] = place;
        ascending = ascending && place == own;
      }
      if (!ascending) notice_order(axis);
    }
  }

  // Members of the group of `position` whose devices come before its own.
  std::int32_t count_below(std::int32_t position, std::int32_t stride, std::int32_t own,
                           std::int32_t size) const {
    std::int32_t below = 0;
    for (std::int32_t i = 0; i < size; ++i) {
      const std::int32_t other = position + (i - own) * stride;
      if (strategy_.device_of(other) < strategy_.device_of(position)) ++below;
    }
    return below;
  }

  void notice_order(std::size_t axis) {
    const bool cuts = std::any_of(placements_.begin(), placements_.end(),
                                  [&](const std::vector<Placement>& placements) {
                                    return placements[axis].kind != PlacementKind::Replicate;
                                  });
    if (!cuts) return;
    const std::string rows = "mesh axis " + json_quote(strategy_.mesh[axis].name) +
                             " has rows whose ranks do not ascend: ";
    layout_.notices.push_back(
        strategy_.use_torch_fsdp2
            ? rows +
                  "FSDP2 stores by ascending rank, torch's stated offsets and checkpoint chunks "
                  "say otherwise"
            : rows +
                  "content is laid out by mesh coordinate, torch's own scatter and full_tensor "
                  "mix the members up");
  }

  void add(std::size_t index, std::int32_t position, std::vector<Storage>& storages) const {
    const Tensor& tensor = model_.tensors[index];
    const std::vector<Placement>& placements = placements_[index];
    std::vector<std::int32_t> coordinate = mesh_coordinate(sizes_, position);
    const int axis = strategy_.use_torch_fsdp2 ? fsdp2_axis(placements) : -1;
    if (axis >= 0) {
      const std::size_t at = static_cast<std::size_t>(axis);
      coordinate[at] = sorted_place_[at][static_cast<std::size_t>(position)];
    }
    const Dims shape = tensor.logical_shape();
    const LocalContent content = axis >= 0 ? fsdp2_content(shape, sizes_, placements, coordinate)
                                           : dtensor_content(shape, sizes_, placements, coordinate);
    if (content.empty()) return;
    const TensorId id(static_cast<std::int32_t>(index));
    lanes_.append_storages(
        tensor.name, lanes_.of_parameter(tensor.dtype, tensor.trainable, tensor.buffer),
        num_elements(content.local_shape()), shards_of(id, tensor, content), storages);
  }

  const Model& model_;
  const Strategy& strategy_;
  StateLanes lanes_;
  Layout layout_;
  std::vector<std::int32_t> sizes_;
  std::vector<std::vector<Placement>> placements_;       // of each tensor
  std::vector<std::vector<std::int32_t>> sorted_place_;  // [mesh axis][mesh position]
};

}  // namespace

Layout mesh_layout(const Model& model, const Strategy& strategy,
                   const std::vector<StateKind>& states) {
  require_mesh_only(strategy);
  std::int64_t members = 1;
  for (const MeshAxis& axis : strategy.mesh) members = checked_mul(members, axis.size);
  if (members != strategy.world_size) {
    throw Error(ErrorCode::BadInput,
                "expected world_size " + std::to_string(members) +
                    " as the mesh has members, found " + std::to_string(strategy.world_size),
                strategy.name);
  }
  return MeshBuilder(model, strategy, states).run();
}

}  // namespace plan
