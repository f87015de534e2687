#include "libplan/layout/known_bugs.h"

#include <algorithm>
#include <optional>

#include "libplan/model/megatron_version.h"

namespace plan {
namespace {

using Found = std::optional<std::string>;

void append_number(std::string& list, std::int32_t number) {
  list += (list.empty() ? "" : ", ") + std::to_string(number);
}

// 0.11 and 0.13 start the virtual stages too early when only the last stage's layers are given.
Found wrong_layers(const Model& model, const MegatronPlacement& placement) {
  std::vector<std::int32_t> copies(static_cast<std::size_t>(model.num_layers), 0);
  for (const std::vector<MegatronChunk>& chunks : placement.stages) {
    for (const MegatronChunk& chunk : chunks) {
      for (std::int32_t i = 0; i < chunk.num_layers; ++i) {
        ++copies[static_cast<std::size_t>(chunk.first_layer + i)];
      }
    }
  }
  std::string missing;
  std::string twice;
  for (std::int32_t layer = 0; layer < model.num_layers; ++layer) {
    const std::int32_t count = copies[static_cast<std::size_t>(layer)];
    if (count == 0) append_number(missing, layer);
    if (count > 1) append_number(twice, layer);
  }
  if (missing.empty() && twice.empty()) return std::nullopt;
  return "builds decoder layers " + twice + " on two stages and layers " + missing +
         " on none (virtual stages with only num_layers_in_last_pipeline_stage)";
}

Found experts_in_dense_buffers(const Model& model, const MegatronPlacement& placement) {
  const CutSizes& cuts = placement.cuts;
  const bool apart = std::any_of(
      placement.stages.begin(), placement.stages.end(),
      [](const std::vector<MegatronChunk>& chunks) {
        return std::any_of(chunks.begin(), chunks.end(), [](const MegatronChunk& chunk) {
          return std::any_of(chunk.params.begin(), chunk.params.end(),
                             [](const LocalParam& param) { return param.expert_parallel; });
        });
      });
  if (model.num_experts == 0 || cuts.etp == cuts.tp || apart) return std::nullopt;
  return "keeps experts in the dense buffers with expert_model_parallel_size 1, over dense data "
         "parallel, though expert_tensor_parallel_size " +
         std::to_string(cuts.etp) + " differs from tensor_model_parallel_size " +
         std::to_string(cuts.tp);
}

Found misplaced_embedding(const MegatronPlacement& placement) {
  for (const std::vector<MegatronChunk>& chunks : placement.stages) {
    for (const MegatronChunk& chunk : chunks) {
      for (const FlatBuffer& buffer : chunk.buffers) {
        for (const FlatParam& flat : buffer.params) {
          const Bucket& bucket = buffer.buckets[static_cast<std::size_t>(flat.bucket)];
          if (flat.range.begin >= bucket.range.begin) continue;
          return "starts " + chunk.params[static_cast<std::size_t>(flat.param)].name +
                 " of stage " + std::to_string(chunk.stage) +
                 " inside the padding of the bucket before it";
        }
      }
    }
  }
  return std::nullopt;
}

// Ranks at the same place in all runs of each group.
std::vector<std::vector<std::int32_t>> partners(
    const std::vector<std::vector<std::int32_t>>& groups, std::int32_t instances) {
  std::vector<std::vector<std::int32_t>> sets;
  for (const std::vector<std::int32_t>& group : groups) {
    const std::size_t length = group.size() / static_cast<std::size_t>(instances);
    for (std::size_t i = 0; i < length; ++i) {
      std::vector<std::int32_t>& set = sets.emplace_back();
      for (std::size_t at = i; at < group.size(); at += length) set.push_back(group[at]);
    }
  }
  std::sort(sets.begin(), sets.end());
  return sets;
}

Found unlike_instances(const MegatronPlacement& placement) {
  const RankGrid& grid = placement.grid;
  if (grid.instances() == 1 || partners(grid.groups("dp-cp"), grid.instances()) ==
                                   partners(grid.groups("edp"), grid.instances())) {
    return std::nullopt;
  }
  return "pairs the optimizer instances of dense state as it pairs those of experts, which are "
         "other ranks under this order";
}

}  // namespace

std::vector<std::string> known_bugs(const Model& model, const MegatronPlacement& placement,
                                    MegatronVersion version) {
  std::vector<Found> found{wrong_layers(model, placement), misplaced_embedding(placement)};
  if (version != MegatronVersion::V020) {
    found.push_back(experts_in_dense_buffers(model, placement));
  }
  // 0.11 does not cut experts, and pairs by the dense groups.
  if (version != MegatronVersion::V011) found.push_back(unlike_instances(placement));
  std::vector<std::string> bugs;
  for (const Found& bug : found) {
    if (bug) bugs.push_back("Megatron-Core " + std::string(name_of(version)) + " " + *bug);
  }
  return bugs;
}

}  // namespace plan
