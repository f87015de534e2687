#include "libplan/verify/lifetime.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "libplan/verify/ops.h"

namespace plan::verify {
namespace {

enum class Life : std::uint8_t { NotYet, Live, Freed };

class RankLifetimes {
 public:
  RankLifetimes(const ir::Schedule& schedule, const ir::Program& program, Findings& findings)
      : schedule_(schedule),
        program_(program),
        findings_(findings),
        life_(program.storages.size(), Life::NotYet),
        taker_(program.storages.size(), -1) {}

  void check() {
    start();
    for (std::size_t i = 0; i < program_.windows.size(); ++i) {
      const ir::Window& window = program_.windows[i];
      window_ = window.number;
      for (const StorageId id : ir::view(program_.storage_ids, window.allocate)) allocate(id);
      peak_device_ = std::max(peak_device_, device_);
      peak_host_ = std::max(peak_host_, host_);
      for (const Phase phase : kPhases) {
        for_each_op(program_, static_cast<std::int32_t>(i), phase,
                    [&](const OpRef& op) { check_op(op); });
      }
      for (const StorageId id : ir::view(program_.storage_ids, window.free)) free(id);
    }
    window_.reset();
    finish();
  }

  std::int64_t peak_device() const { return peak_device_; }
  std::int64_t peak_host() const { return peak_host_; }

 private:
  const ir::Storage& storage(StorageId id) const { return storage_of(program_, id); }
  Life& life(StorageId id) { return life_[static_cast<std::size_t>(id.value)]; }

  void add(std::string_view rule, StorageId id, std::string message) {
    Diagnostic diagnostic;
    diagnostic.rule = rule;
    diagnostic.message = "storage " + std::to_string(id.value);
    if (!storage(id).binding_key.empty()) {
      diagnostic.message += " \"" + storage(id).binding_key + "\"";
    }
    diagnostic.message += " " + std::move(message);
    diagnostic.rank = program_.rank;
    diagnostic.window = window_;
    if (storage(id).state.valid()) {
      diagnostic.state = schedule_.states[static_cast<std::size_t>(storage(id).state.value)];
    }
    findings_.add(std::move(diagnostic));
  }

  // Sources exist from the start; so does opaque state that no window allocates.
  void start() {
    std::vector<bool> allocated(program_.storages.size(), false);
    for (const ir::Window& window : program_.windows) {
      for (const StorageId id : ir::view(program_.storage_ids, window.allocate)) {
        allocated[static_cast<std::size_t>(id.value)] = true;
      }
    }
    for (std::size_t i = 0; i < program_.storages.size(); ++i) {
      const ir::StorageRole role = program_.storages[i].role;
      const bool given =
          role == ir::StorageRole::Source || (role == ir::StorageRole::Opaque && !allocated[i]);
      if (!given) continue;
      life_[i] = Life::Live;
      count(program_.storages[i], 1);
    }
    peak_device_ = device_;
    peak_host_ = host_;
    for (std::size_t i = 0; i < program_.storages.size(); ++i) check_alias(i);
  }

  // The total of all sizes fits 64 bits (structure.cc), so these sums do.
  void count(const ir::Storage& storage, std::int64_t sign) {
    if (storage.memory == MemoryKind::Device) device_ += sign * storage.size_bytes;
    if (storage.memory == MemoryKind::Host) host_ += sign * storage.size_bytes;
  }

  std::vector<ir::Piece> sorted_pieces(const ir::Storage& storage) const {
    const auto view = ir::view(program_.pieces, storage.pieces);
    std::vector<ir::Piece> pieces(view.begin(), view.end());
    std::sort(pieces.begin(), pieces.end(), [](const ir::Piece& a, const ir::Piece& b) {
      return std::tie(a.offset_elems, a.tensor, a.box) < std::tie(b.offset_elems, b.tensor, b.box);
    });
    return pieces;
  }

  void check_alias(std::size_t i) {
    const StorageId id(static_cast<std::int32_t>(i));
    const ir::Storage& alias = storage(id);
    if (!alias.alias_of.valid()) return;
    const ir::Storage& source = storage(alias.alias_of);
    if (alias.role != ir::StorageRole::Target || source.role != ir::StorageRole::Source) {
      add("V311", id, "must be a target that takes over a source");
      return;
    }
    std::int32_t& taker = taker_[static_cast<std::size_t>(alias.alias_of.value)];
    if (taker >= 0) {
      add("V311", id, "takes over a source that storage " + std::to_string(taker) + " takes over");
    }
    taker = id.value;
    if (alias.size_bytes != source.size_bytes || alias.dtype != source.dtype ||
        alias.memory != source.memory || alias.state != source.state ||
        (alias.pieces != source.pieces && sorted_pieces(alias) != sorted_pieces(source))) {
      add("V311", id,
          "differs from the source that it takes over in size, dtype, memory, state "
          "or pieces");
    }
  }

  void allocate(StorageId id) {
    if (storage(id).role == ir::StorageRole::Source) {
      add("V302", id, "is a source, which exists from the start");
      return;
    }
    if (life(id) != Life::NotYet) {
      add("V302", id, "is allocated twice");
      return;
    }
    life(id) = Life::Live;
    if (!storage(id).alias_of.valid()) {
      count(storage(id), 1);
    } else if (life(storage(id).alias_of) != Life::Live) {
      add("V311", id, "takes over a source that is freed");
    }
  }

  void free(StorageId id) {
    if (life(id) != Life::Live) {
      add("V303", id, life(id) == Life::Freed ? "is freed twice" : "is freed before it lives");
      return;
    }
    life(id) = Life::Freed;
    const ir::StorageRole role = storage(id).role;
    if (role == ir::StorageRole::Target) add("V303", id, "is a target, which must live on");
    if (!storage(id).alias_of.valid()) count(storage(id), -1);
    if (role != ir::StorageRole::Source) return;
    if (taker_[static_cast<std::size_t>(id.value)] >= 0) {
      add("V303", id,
          "is taken over by storage " + std::to_string(taker_[static_cast<std::size_t>(id.value)]) +
              " and must not be freed apart");
    }
    const std::int32_t until =
        schedule_.ranks[static_cast<std::size_t>(program_.rank.value)].rollback_until_window;
    if (until < 0 || *window_ < until) {
      add("V313", id,
          "is freed although the rank can be rolled back until " +
              (until < 0 ? "commit" : "window " + std::to_string(until)));
    }
  }

  void finish() {
    for (std::size_t i = 0; i < program_.storages.size(); ++i) {
      if (program_.storages[i].role == ir::StorageRole::Target && life_[i] == Life::NotYet) {
        add("V302", StorageId(static_cast<std::int32_t>(i)), "is a target and never allocated");
      }
    }
  }

  void check_op(const OpRef& op) {
    check_slices(op, read_slices(program_, op), 0);
    check_slices(op, written_slices(program_, op), 1);
    if (op.kind == OpKind::Copy || op.kind == OpKind::Convert) check_sides(op);
    if (op.kind == OpKind::Fill) {
      const ir::Fill& fill = program_.fills[static_cast<std::size_t>(op.index)];
      if (fill.to.run_bytes % fill.pattern_bytes != 0) {
        findings_.add(finding_at(program_, op, -1, "V402", "the pattern does not fit the run"));
      }
    }
  }

  void check_sides(const OpRef& op) {
    std::int64_t from = total_bytes(program_, read_slices(program_, op));
    std::int64_t to = total_bytes(program_, written_slices(program_, op));
    const char* unit = " bytes";
    if (op.kind == OpKind::Convert) {
      const ir::Convert& convert = program_.converts[static_cast<std::size_t>(op.index)];
      const std::int64_t from_size = size_bytes(convert.from_dtype);
      const std::int64_t to_size = size_bytes(convert.to_dtype);
      if (from % from_size != 0 || to % to_size != 0) {
        findings_.add(finding_at(program_, op, -1, "V402", "cuts through an element"));
      }
      from /= from_size;
      to /= to_size;
      unit = " elements";
    }
    if (from != to) {
      findings_.add(
          finding_at(program_, op, -1, "V301",
                     "reads " + std::to_string(from) + unit + " and writes " + std::to_string(to)));
    }
  }

  void check_slices(const OpRef& op, std::span<const ir::Slice> slices, int side) {
    const bool is_message = op.kind == OpKind::Send || op.kind == OpKind::Receive;
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const ir::Slice& slice = slices[i];
      const int number = is_message ? static_cast<int>(i) : side;
      const std::string_view fault = slice_fault(program_, slice);
      if (!fault.empty()) {
        findings_.add(finding_at(program_, op, number, std::string(fault), describe_slice(slice)));
      }
      for (std::int32_t lane = 0; lane < slice.lanes; ++lane) {
        const StorageId id(slice.storage.value + lane);
        if (life(id) == Life::Live) continue;
        const bool early = life(id) == Life::NotYet;
        findings_.add(finding_at(program_, op, number, early ? "V304" : "V305",
                                 "touches storage " + std::to_string(id.value) +
                                     (early ? " before it is allocated" : " after it is freed")));
      }
    }
  }

  std::string describe_slice(const ir::Slice& slice) const {
    const ir::Storage& of = storage(slice.storage);
    return "storage " + std::to_string(slice.storage.value) + " of " +
           std::to_string(of.size_bytes) + " bytes (" + std::string(name_of(of.dtype)) +
           "), slice of " + std::to_string(lane_bytes(program_, slice)) + " bytes at offset " +
           std::to_string(slice.offset_bytes);
  }

  const ir::Schedule& schedule_;
  const ir::Program& program_;
  Findings& findings_;
  std::vector<Life> life_;
  std::vector<std::int32_t> taker_;  // of a source: the target that takes it over, or -1
  std::optional<std::int32_t> window_;
  std::int64_t device_ = 0;  // bytes alive
  std::int64_t host_ = 0;
  std::int64_t peak_device_ = 0;
  std::int64_t peak_host_ = 0;
};

}  // namespace

void check_lifetimes(const ir::Schedule& schedule, const Options& options, Findings& findings,
                     Report& report) {
  report.peak_bytes.assign(schedule.ranks.size(), 0);
  report.peak_host_bytes.assign(schedule.ranks.size(), 0);
  for (const ir::Program& program : schedule.programs) {
    RankLifetimes lifetimes(schedule, program, findings);
    lifetimes.check();
    const auto rank = static_cast<std::size_t>(program.rank.value);
    report.peak_bytes[rank] = lifetimes.peak_device();
    report.peak_host_bytes[rank] = lifetimes.peak_host();
    if (!options.memory_limit || lifetimes.peak_device() <= *options.memory_limit) continue;
    Diagnostic diagnostic;
    diagnostic.rule = "V403";
    diagnostic.message = "expected at most " + std::to_string(*options.memory_limit) +
                         " bytes of device memory, found " +
                         std::to_string(lifetimes.peak_device());
    diagnostic.rank = program.rank;
    findings.add(std::move(diagnostic));
  }
}

}  // namespace plan::verify
