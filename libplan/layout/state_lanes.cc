#include "libplan/layout/state_lanes.h"

#include <algorithm>
#include <map>
#include <utility>

namespace plan {

StateLanes::StateLanes(const Model& model, std::vector<StateKind> states)
    : states_(std::move(states)) {
  bool has_param = false;
  for (std::size_t s = 0; s < states_.size(); ++s) {
    const StateKind& state = states_[s];
    const StateId id(static_cast<std::int32_t>(s));
    if (state.follows == StateFollows::Param) {
      if (state.name == "param") has_param = true;
      param_.push_back({id, state.dtype.value_or(Dtype::BFloat16)});
    } else {
      const Lane lane{id, state.dtype.value_or(Dtype::Float32)};
      main_.push_back(lane);
      if (state.name != "main_param") main_of_fp32_.push_back(lane);
    }
  }
  const bool forced =
      std::any_of(model.tensors.begin(), model.tensors.end(), [&](const Tensor& tensor) {
        return !tensor.trainable || tensor.buffer || tensor.dtype == Dtype::Float32;
      });
  if (!has_param && forced) {
    forced_param_ = StateId(static_cast<std::int32_t>(states_.size()));
    states_.push_back(*builtin_state_kind("param"));
  }
}

std::vector<Lane> StateLanes::of_param(Dtype dtype, bool must_move) const {
  std::vector<Lane> lanes;
  for (Lane lane : param_) {
    if (!states_[static_cast<std::size_t>(lane.state.value)].dtype) lane.dtype = dtype;
    lanes.push_back(lane);
  }
  if (must_move && forced_param_.valid()) lanes.push_back({forced_param_, dtype});
  return lanes;
}

std::vector<Lane> StateLanes::of_parameter(Dtype dtype, bool trainable, bool buffer) const {
  const bool has_main = trainable && !buffer;
  std::vector<Lane> lanes = of_param(dtype, !has_main || dtype == Dtype::Float32);
  if (has_main) lanes.insert(lanes.end(), of_main(dtype).begin(), of_main(dtype).end());
  std::sort(lanes.begin(), lanes.end());
  return lanes;
}

void StateLanes::append_storages(const std::string& key, const std::vector<Lane>& lanes,
                                 std::int64_t size_elems, const std::vector<Shard>& shards,
                                 std::vector<Storage>& storages) const {
  std::map<MemoryKind, std::vector<Lane>> by_memory;
  for (const Lane& lane : lanes) {
    by_memory[states_[static_cast<std::size_t>(lane.state.value)].memory].push_back(lane);
  }
  for (const auto& [memory, group] : by_memory) {
    storages.push_back(
        {by_memory.size() > 1 ? key + (memory == MemoryKind::Host ? "@host" : "@device") : key,
         group, size_elems, memory, shards});
  }
}

}  // namespace plan
