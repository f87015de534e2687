#include "libplan/verify/request.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace plan::verify {
namespace {

using plan::to_string;

const DeviceShards* find_device(const Layout& layout, DeviceId worker) {
  const auto it =
      std::lower_bound(layout.devices.begin(), layout.devices.end(), worker,
                       [](const DeviceShards& shards, DeviceId id) { return shards.device < id; });
  return it != layout.devices.end() && it->device == worker ? &*it : nullptr;
}

std::string_view state_name(const Layout& layout, StateId state) {
  if (!state.valid() || static_cast<std::size_t>(state.value) >= layout.states.size()) return "?";
  return layout.states[static_cast<std::size_t>(state.value)].name;
}

// One side (source or target) of the schedule against its layout.
class SideCheck {
 public:
  SideCheck(const ir::Schedule& schedule, const Layout& layout, ir::StorageRole role,
            Findings& findings)
      : schedule_(schedule),
        layout_(layout),
        role_(role),
        side_(role == ir::StorageRole::Source ? "source" : "target"),
        findings_(findings) {
    std::map<std::string_view, std::int32_t> ids;
    for (std::size_t i = 0; i < schedule.tensors.size(); ++i) {
      ids.emplace(schedule.tensors[i].name, static_cast<std::int32_t>(i));
    }
    for (const LayoutTensor& tensor : layout.tensors) {
      const auto it = ids.find(tensor.name);
      scheduled_.push_back(it == ids.end() ? TensorId() : TensorId(it->second));
    }
  }

  void check_tensors() {
    for (std::size_t i = 0; i < layout_.tensors.size(); ++i) {
      if (!scheduled_[i].valid()) continue;  // then its storages are missed, if it has any
      const LayoutTensor& tensor = layout_.tensors[i];
      const ir::TensorEntry& entry =
          schedule_.tensors[static_cast<std::size_t>(scheduled_[i].value)];
      Dims expected = tensor.shape;
      // Padding may have other rows on each side.
      if (tensor.padding && expected.count > 0 && entry.shape.count > 0) {
        expected[0] = entry.shape[0];
      }
      if (entry.shape == expected && entry.padding == tensor.padding) continue;
      Diagnostic diagnostic;
      diagnostic.rule = "V102";
      diagnostic.message = "expected shape " + to_string(tensor.shape) +
                           (tensor.padding ? " (padding)" : "") + " as in the " + side_ +
                           " layout, found " + to_string(entry.shape) +
                           (entry.padding ? " (padding)" : "");
      diagnostic.tensor = tensor.name;
      findings_.add(std::move(diagnostic));
    }
  }

  // Every worker of the layout that holds something has a rank.
  void check_workers() {
    for (const DeviceShards& device : layout_.devices) {
      const auto it = std::lower_bound(
          schedule_.ranks.begin(), schedule_.ranks.end(), device.device,
          [](const ir::RankEntry& entry, DeviceId id) { return entry.worker < id; });
      const bool found = it != schedule_.ranks.end() && it->worker == device.device;
      if (found || device.storages.empty()) continue;
      Diagnostic diagnostic;
      diagnostic.rule = "V107";
      diagnostic.message = "worker " + std::to_string(device.device.value) + " of the " + side_ +
                           " layout has no rank in the plan";
      findings_.add(std::move(diagnostic));
    }
  }

  void check_role(const ir::RankEntry& entry) {
    const DeviceShards* device = find_device(layout_, entry.worker);
    const bool flag = role_ == ir::StorageRole::Source ? entry.is_source : entry.is_target;
    const bool holds = device != nullptr && !device->storages.empty();
    // A worker that is listed without storages may be called either.
    if (flag == holds || (device != nullptr && device->storages.empty())) return;
    Diagnostic diagnostic;
    diagnostic.rule = "V108";
    diagnostic.message = std::string("the rank is ") + (flag ? "" : "not ") + "called a " + side_ +
                         ", and its worker " + std::to_string(entry.worker.value) + " holds " +
                         (holds ? "" : "no ") + side_ + " state";
    diagnostic.rank = entry.rank;
    findings_.add(std::move(diagnostic));
  }

  void check_program(const ir::Program& program) {
    using Key = std::pair<std::string_view, std::string_view>;  // binding key, state
    std::map<Key, const ir::Storage*> present;
    for (const ir::Storage& storage : program.storages) {
      if (storage.role != role_) continue;
      const Key key{storage.binding_key,
                    schedule_.states[static_cast<std::size_t>(storage.state.value)]};
      if (!present.emplace(key, &storage).second) {
        add("V104", program, key.first, key.second, "is there twice");
      }
    }
    const ir::RankEntry& entry = schedule_.ranks[static_cast<std::size_t>(program.rank.value)];
    if (const DeviceShards* device = find_device(layout_, entry.worker)) {
      for (const Storage& storage : device->storages) {
        for (const Lane& lane : storage.lanes) {
          const std::string_view state = state_name(layout_, lane.state);
          const auto it = present.find({storage.key, state});
          if (it == present.end()) {
            add("V103", program, storage.key, state, "is in the layout and not in the program");
            continue;
          }
          check_storage(program, storage, lane, *it->second);
          present.erase(it);
        }
      }
    }
    for (const auto& [key, storage] : present) {
      add("V104", program, key.first, key.second, "is in the program and not in the layout");
    }
  }

 private:
  void add(std::string_view rule, const ir::Program& program, std::string_view key,
           std::string_view state, const std::string& message) {
    Diagnostic diagnostic;
    diagnostic.rule = rule;
    diagnostic.message = side_ + " storage \"" + std::string(key) + "\", state " +
                         std::string(state) + ", " + message;
    diagnostic.rank = program.rank;
    diagnostic.state = state;
    findings_.add(std::move(diagnostic));
  }

  void check_storage(const ir::Program& program, const Storage& expected, const Lane& lane,
                     const ir::Storage& found) {
    const std::string_view state = state_name(layout_, lane.state);
    std::int64_t bytes = 0;
    const bool overflow =
        __builtin_mul_overflow(expected.size_elems, size_bytes(lane.dtype), &bytes);
    if (overflow || found.size_bytes != bytes || found.dtype != lane.dtype ||
        found.memory != expected.memory) {
      add("V105", program, expected.key, state,
          "must be " + std::to_string(bytes) + " bytes of " + std::string(name_of(lane.dtype)) +
              " in memory " + std::to_string(static_cast<int>(expected.memory)) + ", found " +
              std::to_string(found.size_bytes) + " bytes of " + std::string(name_of(found.dtype)) +
              " in memory " + std::to_string(static_cast<int>(found.memory)));
    }
    check_pieces(program, expected, state, found);
  }

  void check_pieces(const ir::Program& program, const Storage& expected, std::string_view state,
                    const ir::Storage& found) {
    const auto less = [](const ir::Piece& a, const ir::Piece& b) {
      return std::tie(a.offset_elems, a.tensor, a.box, a.strides_elems) <
             std::tie(b.offset_elems, b.tensor, b.box, b.strides_elems);
    };
    std::vector<ir::Piece> wanted;
    for (const Shard& shard : expected.shards) {
      const bool known =
          shard.tensor.valid() && static_cast<std::size_t>(shard.tensor.value) < scheduled_.size();
      wanted.push_back(
          {known ? scheduled_[static_cast<std::size_t>(shard.tensor.value)] : TensorId(), shard.box,
           shard.offset_elems, shard.strides_elems});
    }
    const auto view = ir::view(program.pieces, found.pieces);
    std::vector<ir::Piece> pieces(view.begin(), view.end());
    // Strides of axes with one element mean nothing.
    for (std::vector<ir::Piece>* list : {&wanted, &pieces}) {
      for (ir::Piece& piece : *list) {
        for (int axis = 0; axis < std::min(piece.box.count, piece.strides_elems.count); ++axis) {
          if (piece.box[axis].length() == 1) piece.strides_elems[axis] = 0;
        }
      }
      std::sort(list->begin(), list->end(), less);
    }
    const auto [wrong, other] =
        std::mismatch(wanted.begin(), wanted.end(), pieces.begin(), pieces.end());
    if (wrong == wanted.end() && other == pieces.end()) return;
    Diagnostic diagnostic;
    diagnostic.rule = "V106";
    diagnostic.message = side_ + " storage \"" + expected.key + "\": " +
                         (wrong == wanted.end()   ? "a piece that the layout does not have"
                          : other == pieces.end() ? "a piece is missing"
                                                  : "a piece differs from the layout's");
    diagnostic.rank = program.rank;
    diagnostic.state = state;
    const ir::Piece& piece = wrong != wanted.end() ? *wrong : *other;
    if (piece.tensor.valid()) {
      diagnostic.tensor = schedule_.tensors[static_cast<std::size_t>(piece.tensor.value)].name;
    }
    diagnostic.box = piece.box;
    findings_.add(std::move(diagnostic));
  }

  const ir::Schedule& schedule_;
  const Layout& layout_;
  ir::StorageRole role_;
  std::string side_;
  Findings& findings_;
  std::vector<TensorId> scheduled_;  // of each tensor of the layout
};

void check_digests(const ir::Digests& found, const ir::Digests& expected, Findings& findings) {
  const auto compare = [&](std::string_view input, const std::string& a, const std::string& b) {
    if (b.empty() || a == b) return;
    Diagnostic diagnostic;
    diagnostic.rule = "V101";
    diagnostic.message =
        "the plan was made for another " + std::string(input) + ": digest " + a + ", expected " + b;
    findings.add(std::move(diagnostic));
  };
  compare("model", found.model, expected.model);
  compare("source", found.source_layout, expected.source_layout);
  compare("target", found.target_layout, expected.target_layout);
  compare("topology", found.topology, expected.topology);
}

}  // namespace

void check_request(const ir::Schedule& schedule, const Layout& source, const Layout& target,
                   const Options& options, Findings& findings) {
  if (options.expected_digests) {
    check_digests(schedule.digests, *options.expected_digests, findings);
  }
  SideCheck source_side(schedule, source, ir::StorageRole::Source, findings);
  SideCheck target_side(schedule, target, ir::StorageRole::Target, findings);
  target_side.check_workers();  // a source worker without a rank is dead or left out
  for (SideCheck* side : {&source_side, &target_side}) {
    side->check_tensors();
    for (const ir::RankEntry& entry : schedule.ranks) side->check_role(entry);
    for (const ir::Program& program : schedule.programs) side->check_program(program);
  }
}

}  // namespace plan::verify
