#include "libplan/schedule/shard_index.h"

#include <algorithm>
#include <tuple>

#include "libplan/demand/state_groups.h"

namespace plan {

ShardIndex::ShardIndex(const DeviceShards& device, const std::vector<StateGroup>& groups) {
  for (std::size_t s = 0; s < device.storages.size(); ++s) {
    const Storage& storage = device.storages[s];
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (!has_lane(storage, groups[g].states.front())) continue;
      for (std::size_t i = 0; i < storage.shards.size(); ++i) {
        entries_.push_back({StateGroupId(static_cast<std::int32_t>(g)), storage.shards[i].tensor,
                            storage.shards[i].box, static_cast<std::int32_t>(s),
                            static_cast<std::int32_t>(i)});
      }
    }
  }
  std::sort(entries_.begin(), entries_.end());
  std::vector<Entry> unique;
  for (const Entry& entry : entries_) {
    if (!unique.empty() && unique.back().group == entry.group &&
        unique.back().tensor == entry.tensor && unique.back().box == entry.box) {
      const Entry& first = unique.back();
      duplicates_.push_back({entry.group,
                             {first.box, first.storage, first.shard},
                             {entry.box, entry.storage, entry.shard}});
    } else {
      unique.push_back(entry);
    }
  }
  entries_ = std::move(unique);
}

std::vector<Located> ShardIndex::locate(StateGroupId group, TensorId tensor, const Box& box) const {
  const auto key = std::make_tuple(group, tensor);
  auto at = std::lower_bound(entries_.begin(), entries_.end(), key,
                             [](const Entry& entry, const auto& wanted) {
                               return std::make_tuple(entry.group, entry.tensor) < wanted;
                             });
  std::vector<Located> found;
  for (; at != entries_.end() && std::make_tuple(at->group, at->tensor) == key; ++at) {
    const Box common = intersect(at->box, box);
    if (!common.empty()) found.push_back({common, at->storage, at->shard});
  }
  std::sort(found.begin(), found.end(),
            [](const Located& a, const Located& b) { return a.box < b.box; });
  return found;
}

}  // namespace plan
