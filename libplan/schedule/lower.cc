#include "libplan/schedule/lower.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "libplan/base/checked.h"
#include "libplan/base/error.h"
#include "libplan/demand/state_groups.h"
#include "libplan/schedule/canonical.h"
#include "libplan/schedule/packing.h"
#include "libplan/schedule/program_writer.h"
#include "libplan/schedule/shard_index.h"

namespace plan {
namespace {

// One side (source or target) of one rank.
struct Side {
  const DeviceShards* shards = nullptr;  // null: the rank is not on this side
  std::unique_ptr<ShardIndex> index;
  std::vector<StorageId> first_lane;  // of each storage of `shards`
};

// Where a relay keeps a part that it does not need itself: a contiguous box in scratch.
struct Held {
  StorageId storage;
  Shard shard;
};

struct RankState {
  explicit RankState(RankId rank) : builder(rank) {}
  ProgramWriter builder;
  Side source;
  Side target;
  std::set<StorageId> aliases;  // target storages that nothing has to be written to
  std::map<StorageId, std::int32_t> first_write;      // target storage (first lane) -> window
  std::map<std::int32_t, Held> relayed;               // part -> scratch
  std::map<std::int32_t, std::int32_t> last_forward;  // part -> last window that sends it on
};

// One end of a transfer: a box, where it lies, and the storage of its first lane.
struct End {
  Box box;
  const Shard* shard = nullptr;
  StorageId storage;
  std::int64_t elem_bytes = 0;
};

class Lowering {
 public:
  Lowering(const Demand& demand, const RoutedDemand& routed, const Layout& source,
           const Layout& target, const Topology& topology, const LowerOptions& options)
      : demand_(demand),
        routed_(routed),
        source_(source),
        target_(target),
        topology_(topology),
        options_(options) {}

  ir::Schedule run() {
    add_ranks();
    add_tensors();
    add_storages();
    add_local_copies();
    add_fills();
    add_relay_storages();
    add_messages();
    add_duplicates();
    add_allocations();
    for (std::unique_ptr<RankState>& rank : ranks_) {
      schedule_.programs.push_back(std::move(rank->builder).build());
    }
    return std::move(schedule_);
  }

 private:
  RankState& rank_of(DeviceId device) {
    return *ranks_[static_cast<std::size_t>(rank_ids_.at(device).value)];
  }

  const Atom& atom_of(const Part& part) const {
    return demand_.atoms[static_cast<std::size_t>(part.atom)];
  }

  std::int32_t lanes_of(StateGroupId group) const {
    return static_cast<std::int32_t>(
        demand_.groups[static_cast<std::size_t>(group.value)].states.size());
  }

  std::int64_t elem_bytes(const Atom& atom) const {
    return atom.bytes_per_elem / lanes_of(atom.group);
  }

  void add_ranks() {
    std::set<DeviceId> devices;
    std::map<DeviceId, const DeviceShards*> on_source;
    std::map<DeviceId, const DeviceShards*> on_target;
    for (const DeviceShards& device : source_.devices) {
      if (!topology_.is_dead(device.device)) on_source[device.device] = &device;
    }
    for (const DeviceShards& device : target_.devices) on_target[device.device] = &device;
    for (const auto& [device, shards] : on_source) devices.insert(device);
    for (const auto& [device, shards] : on_target) devices.insert(device);
    for (const Hop& hop : routed_.hops) devices.insert(hop.receiver);  // relays of neither side
    for (const DeviceId device : devices) {
      const RankId id(checked_int32(static_cast<std::int64_t>(ranks_.size())));
      rank_ids_[device] = id;
      ranks_.push_back(std::make_unique<RankState>(id));
      RankState& rank = *ranks_.back();
      if (on_source.contains(device)) rank.source.shards = on_source[device];
      if (on_target.contains(device)) rank.target.shards = on_target[device];
      for (Side* side : {&rank.source, &rank.target}) {
        if (side->shards != nullptr)
          side->index = std::make_unique<ShardIndex>(*side->shards, demand_.groups);
      }
      schedule_.ranks.push_back({id, device, topology_.node_of(device),
                                 rank.source.shards != nullptr, rank.target.shards != nullptr, -1});
    }
    schedule_.window_ops = options_.window_ops;
    schedule_.num_windows = 1;
    for (const Hop& hop : routed_.hops)
      schedule_.num_windows = std::max(schedule_.num_windows, hop.round + 1);
  }

  void add_tensors() {
    for (const LayoutTensor& tensor : target_.tensors) {
      schedule_.tensors.push_back({tensor.name, tensor.shape, tensor.padding});
    }
    for (const StateKind& state : target_.states) schedule_.states.push_back(state.name);
  }

  // A target storage with the lanes, size, memory and shards of a source storage takes it over.
  static const Storage* twin_of(const Storage& storage, const std::vector<const Storage*>& sorted,
                                std::size_t& at) {
    const auto [begin, end] = std::equal_range(sorted.begin(), sorted.end(), &storage, before);
    for (auto candidate = begin; candidate != end; ++candidate) {
      if (same_geometry(**candidate, storage)) {
        at = static_cast<std::size_t>(candidate - sorted.begin());
        return *candidate;
      }
    }
    return nullptr;
  }
  static bool before(const Storage* a, const Storage* b) {
    const auto key = [](const Storage* s) {
      const TensorId tensor = s->shards.empty() ? TensorId() : s->shards.front().tensor;
      return std::make_tuple(tensor, s->size_elems, s->shards.size());
    };
    return key(a) < key(b);
  }
  static bool same_geometry(const Storage& a, const Storage& b) {
    return a.lanes == b.lanes && a.size_elems == b.size_elems && a.memory == b.memory &&
           a.shards == b.shards;
  }

  void add_storages() {
    for (std::unique_ptr<RankState>& rank : ranks_) {
      std::map<const Storage*, StorageId> source_ids;
      std::vector<const Storage*> sorted;
      if (rank->source.shards != nullptr) {
        for (const Storage& storage : rank->source.shards->storages) {
          const StorageId id = rank->builder.add_storage(storage, ir::StorageRole::Source);
          rank->source.first_lane.push_back(id);
          source_ids[&storage] = id;
          sorted.push_back(&storage);
        }
      }
      std::stable_sort(sorted.begin(), sorted.end(), before);
      std::vector<bool> taken(sorted.size(), false);
      if (rank->target.shards == nullptr) continue;
      for (const Storage& storage : rank->target.shards->storages) {
        StorageId alias_of;
        std::size_t at = 0;
        const Storage* twin = options_.alias ? twin_of(storage, sorted, at) : nullptr;
        if (twin != nullptr && !taken[at]) {
          taken[at] = true;
          alias_of = source_ids.at(twin);
        }
        const StorageId id = rank->builder.add_storage(storage, ir::StorageRole::Target, alias_of);
        rank->target.first_lane.push_back(id);
        for (std::size_t lane = 0; alias_of.valid() && lane < storage.lanes.size(); ++lane) {
          rank->aliases.insert(StorageId(id.value + static_cast<std::int32_t>(lane)));
        }
      }
    }
  }

  std::vector<End> ends(const Side& side, const Atom& atom, const Box& box) const {
    std::vector<End> result;
    const StateId first_state =
        demand_.groups[static_cast<std::size_t>(atom.group.value)].states.front();
    for (const Located& located : side.index->locate(atom.group, atom.tensor, box)) {
      const auto s = static_cast<std::size_t>(located.storage);
      const Storage& storage = side.shards->storages[s];
      const StorageId id(side.first_lane[s].value + lane_of(storage, first_state));
      result.push_back({located.box, &storage.shards[static_cast<std::size_t>(located.shard)], id,
                        elem_bytes(atom)});
    }
    return result;
  }

  // Cuts both ends into common boxes and calls use(from slice, to slice) for each, in box order.
  template <class Use>
  void for_common_boxes(const std::vector<End>& from, const std::vector<End>& to,
                        std::int32_t lanes, Use use) const {
    for (const End& a : from) {
      for (const End& b : to) {
        const Box common = intersect(a.box, b.box);
        if (common.empty()) continue;
        use(slice_of_box(*a.shard, common, a.storage, lanes, a.elem_bytes),
            slice_of_box(*b.shard, common, b.storage, lanes, b.elem_bytes));
      }
    }
  }

  void note_write(RankState& rank, StorageId storage, std::int32_t window) {
    const auto [at, inserted] = rank.first_write.try_emplace(storage, window);
    if (!inserted) at->second = std::min(at->second, window);
  }

  void add_local_copies() {
    for (const Atom& atom : demand_.atoms) {
      const std::vector<DeviceId>& holders = demand_.devices(atom.holders);
      for (const DeviceId needer : demand_.devices(atom.needers)) {
        if (!std::binary_search(holders.begin(), holders.end(), needer)) continue;
        RankState& rank = rank_of(needer);
        std::vector<End> to = ends(rank.target, atom, atom.box);
        std::erase_if(to, [&](const End& end) { return rank.aliases.contains(end.storage); });
        if (to.empty()) continue;
        for_common_boxes(ends(rank.source, atom, atom.box), to, lanes_of(atom.group),
                         [&](const LooseSlice& from, const LooseSlice& slice) {
                           rank.builder.copy_before(0, from, slice);
                           note_write(rank, slice.storage, 0);
                         });
      }
    }
  }

  // Vocabulary padding that no one holds is zero, as a fresh parameter's optimizer state is.
  void add_fills() {
    for (const Atom& atom : demand_.fills) {
      for (const DeviceId needer : demand_.devices(atom.needers)) {
        RankState& rank = rank_of(needer);
        for (const End& end : ends(rank.target, atom, atom.box)) {
          rank.builder.fill_before(
              0,
              slice_of_box(*end.shard, end.box, end.storage, lanes_of(atom.group), end.elem_bytes),
              0, 1);
          note_write(rank, end.storage, 0);
        }
      }
    }
  }

  bool needs(DeviceId device, const Atom& atom) const {
    const std::vector<DeviceId>& needers = demand_.devices(atom.needers);
    return std::binary_search(needers.begin(), needers.end(), device);
  }

  void add_relay_storages() {
    for (const Hop& hop : routed_.hops) {
      const Part& part = routed_.parts[static_cast<std::size_t>(hop.part)];
      const Atom& atom = atom_of(part);
      if (hop.parent >= 0) {
        std::int32_t& last = rank_of(hop.sender).last_forward[hop.part];
        last = std::max(last, hop.round);
      }
      if (needs(hop.receiver, atom)) continue;
      RankState& rank = rank_of(hop.receiver);
      const std::int32_t lanes = lanes_of(atom.group);
      const Dims extents = part.box.extents();
      Held held;
      held.shard = {atom.tensor, part.box, 0, contiguous_strides(extents)};
      const std::int64_t bytes = checked_mul(num_elements(extents), elem_bytes(atom));
      for (std::int32_t lane = 0; lane < lanes; ++lane) {
        const StorageId id = rank.builder.add_scratch(bytes, MemoryKind::Device);
        if (lane == 0) held.storage = id;
        rank.builder.allocate(hop.round, id);
      }
      rank.relayed[hop.part] = held;
    }
    for (std::unique_ptr<RankState>& rank : ranks_) {
      for (const auto& [part, held] : rank->relayed) {
        const std::int32_t lanes =
            lanes_of(atom_of(routed_.parts[static_cast<std::size_t>(part)]).group);
        for (std::int32_t lane = 0; lane < lanes; ++lane) {
          rank->builder.free(rank->last_forward.at(part), StorageId(held.storage.value + lane));
        }
      }
    }
  }

  std::vector<End> sender_ends(const Hop& hop, const Part& part) {
    RankState& rank = rank_of(hop.sender);
    if (hop.parent < 0) return ends(rank.source, atom_of(part), part.box);
    return receiver_ends(rank, hop.part, part);
  }

  std::vector<End> receiver_ends(const RankState& rank, std::int32_t part_id,
                                 const Part& part) const {
    const Atom& atom = atom_of(part);
    const auto held = rank.relayed.find(part_id);
    if (held == rank.relayed.end()) return ends(rank.target, atom, part.box);
    return {{part.box, &held->second.shard, held->second.storage, elem_bytes(atom)}};
  }

  void add_messages() {
    using Key = std::tuple<std::int32_t, RankId, RankId>;  // window, sender, receiver
    std::map<Key, std::vector<std::int32_t>> hops_of_message;
    for (std::size_t h = 0; h < routed_.hops.size(); ++h) {
      const Hop& hop = routed_.hops[h];
      hops_of_message[{hop.round, rank_ids_.at(hop.sender), rank_ids_.at(hop.receiver)}].push_back(
          static_cast<std::int32_t>(h));
    }
    std::int64_t message = 0;
    for (const auto& [key, hops] : hops_of_message) {
      std::vector<LooseSlice> from;
      std::vector<LooseSlice> to;
      RankState& receiver = *ranks_[static_cast<std::size_t>(std::get<2>(key).value)];
      for (const std::int32_t h : hops) {
        const Hop& hop = routed_.hops[static_cast<std::size_t>(h)];
        const Part& part = routed_.parts[static_cast<std::size_t>(hop.part)];
        for_common_boxes(sender_ends(hop, part), receiver_ends(receiver, hop.part, part),
                         lanes_of(atom_of(part).group),
                         [&](const LooseSlice& a, const LooseSlice& b) {
                           from.push_back(a);
                           to.push_back(b);
                           note_write(receiver, b.storage, std::get<0>(key));
                         });
      }
      emit_message(std::get<0>(key), std::get<1>(key), std::get<2>(key), message++, from, to);
    }
  }

  void emit_message(std::int32_t window, RankId sender, RankId receiver, std::int64_t message,
                    std::vector<LooseSlice>& from, std::vector<LooseSlice>& to) {
    ProgramWriter& out = ranks_[static_cast<std::size_t>(sender.value)]->builder;
    ProgramWriter& in = ranks_[static_cast<std::size_t>(receiver.value)]->builder;
    if (options_.packing == Packing::Always) {
      from = {packed(out, window, from)};
      to = {unpacked(in, window, to)};
    }
    out.send(window, receiver, message, from);
    in.receive(window, sender, message, to);
  }

  // A box that a rank holds twice is received once and copied in a last window of its own.
  void add_duplicates() {
    bool any = false;
    const std::int32_t window = schedule_.num_windows;
    for (std::unique_ptr<RankState>& rank : ranks_) {
      if (rank->target.shards == nullptr) continue;
      for (const ShardIndex::Duplicate& duplicate : rank->target.index->duplicates()) {
        const End from = end_of(rank->target, duplicate.group, duplicate.first);
        const End to = end_of(rank->target, duplicate.group, duplicate.again);
        if (rank->aliases.contains(to.storage)) continue;
        const std::int32_t lanes = lanes_of(duplicate.group);
        rank->builder.copy_before(
            window, slice_of_box(*from.shard, from.box, from.storage, lanes, from.elem_bytes),
            slice_of_box(*to.shard, to.box, to.storage, lanes, to.elem_bytes));
        note_write(*rank, to.storage, window);
        any = true;
      }
    }
    if (any) ++schedule_.num_windows;
  }

  End end_of(const Side& side, StateGroupId group, const Located& located) const {
    const auto s = static_cast<std::size_t>(located.storage);
    const Storage& storage = side.shards->storages[s];
    const std::int32_t lane =
        lane_of(storage, demand_.groups[static_cast<std::size_t>(group.value)].states.front());
    return {located.box, &storage.shards[static_cast<std::size_t>(located.shard)],
            StorageId(side.first_lane[s].value + lane),
            size_bytes(storage.lanes[static_cast<std::size_t>(lane)].dtype)};
  }

  // A target storage is allocated in the window that first writes any of its lanes; one that
  // nothing writes (an alias, or padding only) in window 0.
  void add_allocations() {
    for (std::unique_ptr<RankState>& rank : ranks_) {
      for (std::size_t s = 0; s < rank->target.first_lane.size(); ++s) {
        const auto lanes = static_cast<std::int32_t>(rank->target.shards->storages[s].lanes.size());
        for (std::int32_t lane = 0; lane < lanes; ++lane) {
          const StorageId id(rank->target.first_lane[s].value + lane);
          rank->builder.allocate(first_write(*rank, rank->target.first_lane[s], id), id);
        }
      }
    }
  }

  // Writes are noted at the first lane of a slice; the lanes behind it are written with it.
  static std::int32_t first_write(const RankState& rank, StorageId first_lane, StorageId id) {
    const auto after = rank.first_write.upper_bound(id);
    if (after == rank.first_write.begin()) return 0;
    const auto [storage, window] = *std::prev(after);
    return storage < first_lane ? 0 : window;
  }

  const Demand& demand_;
  const RoutedDemand& routed_;
  const Layout& source_;
  const Layout& target_;
  const Topology& topology_;
  const LowerOptions& options_;
  ir::Schedule schedule_;
  std::map<DeviceId, RankId> rank_ids_;
  std::vector<std::unique_ptr<RankState>> ranks_;
};

}  // namespace

ir::Schedule lower(const Demand& demand, const RoutedDemand& routed, const Layout& source,
                   const Layout& target, const Topology& topology, const LowerOptions& options) {
  ir::Schedule schedule = Lowering(demand, routed, source, target, topology, options).run();
  canonicalize(schedule);
  return schedule;
}

}  // namespace plan
