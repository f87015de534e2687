#include "libplan/verify/coverage.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "libplan/verify/ops.h"

namespace plan::verify {
namespace {

// A box of a piece that an op reads or writes.
struct Access {
  std::int32_t storage = 0;  // an alias counts as its source
  std::int32_t piece = 0;    // position in the sorted pieces, the same for an alias
  bool writes = false;
  int slice = 0;
  OpRef op;
  Box box;
};

// What holds for the elements of a storage before any write.
enum class Before : std::uint8_t {
  Absent,   // a target: to be written once
  Present,  // a source that no target takes over
  InPlace,  // a source that a target takes over: a write may only put the same elements again
};

// Cuts a piece at the faces of the boxes that are written until each cell is written whole or not
// at all. Reads do not cut: one that covers a cell is held against the latest write in it.
class Subdivision {
 public:
  Subdivision(const ir::Schedule& schedule, const ir::Program& program, StorageId storage,
              Before before, const ir::Piece& piece, Budget& budget, Findings& findings)
      : schedule_(schedule),
        program_(program),
        storage_(storage),
        before_(before),
        piece_(piece),
        budget_(budget),
        findings_(findings) {}

  void run(std::vector<Access> writes, std::vector<Access> reads) {
    visit(piece_.box, std::move(writes), std::move(reads));
    report_missing();
  }

 private:
  struct Outcome {            // of the writes inside a cell
    bool is_missing = false;  // some element is never written
    bool is_written = false;
    OpRef latest;  // if is_written
  };

  Outcome visit(const Box& cell, std::vector<Access> writes, std::vector<Access> reads) {
    if (--budget_.parts < 0) return {};
    const auto covers = [&](const Access& access) { return access.box == cell; };
    if (std::all_of(writes.begin(), writes.end(), covers)) return visit_leaf(cell, writes, reads);
    std::vector<Access> covering;
    if (before_ == Before::Absent) {  // else reads depend on each single write
      const auto first = std::stable_partition(reads.begin(), reads.end(), std::not_fn(covers));
      covering.assign(first, reads.end());
      reads.erase(first, reads.end());
    }
    const auto [axis, cut] = choose_cut(cell, writes);
    Box lower = cell;
    Box upper = cell;
    lower[axis].end = cut;
    upper[axis].begin = cut;
    Outcome outcome = visit(lower, clip(writes, lower), clip(reads, lower));
    const Outcome other = visit(upper, clip(writes, upper), clip(reads, upper));
    outcome.is_missing = outcome.is_missing || other.is_missing;
    if (other.is_written && (!outcome.is_written || other.latest.time() > outcome.latest.time())) {
      outcome.is_written = true;
      outcome.latest = other.latest;
    }
    for (const Access& read : covering) check_read(read, outcome);
    return outcome;
  }

  static std::vector<Access> clip(const std::vector<Access>& accesses, const Box& cell) {
    std::vector<Access> inside;
    for (const Access& access : accesses) {
      const Box box = intersect(access.box, cell);
      if (box.empty()) continue;
      inside.push_back(access);
      inside.back().box = box;
    }
    return inside;
  }

  // The median face of the axis that has the most faces strictly inside the cell: each cut halves
  // that axis's faces, so the depth is logarithmic.
  static std::pair<int, std::int64_t> choose_cut(const Box& cell,
                                                 const std::vector<Access>& writes) {
    std::array<std::vector<std::int64_t>, kMaxDims> faces;
    int best = 0;
    for (int axis = 0; axis < cell.count; ++axis) {
      std::vector<std::int64_t>& inside = faces[static_cast<std::size_t>(axis)];
      for (const Access& write : writes) {
        if (write.box[axis].begin > cell[axis].begin) inside.push_back(write.box[axis].begin);
        if (write.box[axis].end < cell[axis].end) inside.push_back(write.box[axis].end);
      }
      if (inside.size() > faces[static_cast<std::size_t>(best)].size()) best = axis;
    }
    std::vector<std::int64_t>& of_axis = faces[static_cast<std::size_t>(best)];
    const auto median = of_axis.begin() + static_cast<std::ptrdiff_t>(of_axis.size() / 2);
    std::nth_element(of_axis.begin(), median, of_axis.end());
    return {best, *median};
  }

  Outcome visit_leaf(const Box& cell, std::vector<Access>& writes,
                     const std::vector<Access>& reads) {
    Outcome outcome;
    if (writes.empty()) {
      outcome.is_missing = before_ == Before::Absent;
      if (outcome.is_missing) missing_.push_back(cell);
    } else {
      std::stable_sort(writes.begin(), writes.end(),
                       [](const Access& a, const Access& b) { return a.op.time() < b.op.time(); });
      outcome.is_written = true;
      outcome.latest = writes.back().op;
    }
    for (std::size_t i = 1; i < writes.size(); ++i) {
      const OpRef& earlier = writes[i - 1].op;
      if (earlier.time() == writes[i].op.time() && earlier != writes[i].op) {
        add("V307", writes[i], cell,
            "writes what " + describe(program_, earlier) + " writes in the same phase");
      } else if (before_ != Before::Present) {
        add("V308", writes[i], cell, "writes again what " + name(earlier) + " has written");
      }
    }
    for (const Access& read : reads) {
      if (before_ == Before::Absent) {
        check_read(read, outcome);
      } else {
        check_read_of_source(read, writes);
      }
    }
    return outcome;
  }

  std::string name(const OpRef& op) const {
    return describe(program_, op) + " in window " +
           std::to_string(program_.windows[static_cast<std::size_t>(op.window)].number);
  }

  void check_read(const Access& read, const Outcome& outcome) {
    if (outcome.is_missing) {
      add("V306", read, read.box, "reads elements that are never written");
    } else if (!outcome.is_written || outcome.latest.time() < read.op.time()) {
      return;
    } else if (outcome.latest.time() == read.op.time()) {
      add("V307", read, read.box,
          "reads what " + describe(program_, outcome.latest) + " writes in the same phase");
    } else {
      add("V306", read, read.box, "reads elements before " + name(outcome.latest) + " writes them");
    }
  }

  void check_read_of_source(const Access& read, const std::vector<Access>& writes) {
    for (const Access& write : writes) {
      if (write.op.time() == read.op.time()) {
        add("V307", read, read.box,
            "reads what " + describe(program_, write.op) + " writes in the same phase");
      } else if (write.op.time() < read.op.time() && before_ == Before::Present) {
        add("V312", read, read.box,
            "reads source elements that " + name(write.op) + " has overwritten");
      }
    }
  }

  void add(const char* rule, const Access& access, const Box& box, std::string message) {
    if (!reported_
             .insert({rule, access.op.time(), static_cast<int>(access.op.kind), access.op.index,
                      access.slice})
             .second) {
      return;
    }
    Diagnostic diagnostic = finding_at(program_, access.op, access.slice, rule, std::move(message));
    name_place(diagnostic, box);
    findings_.add(std::move(diagnostic));
  }

  void name_place(Diagnostic& diagnostic, const Box& box) const {
    diagnostic.tensor = schedule_.tensors[static_cast<std::size_t>(piece_.tensor.value)].name;
    diagnostic.state =
        schedule_.states[static_cast<std::size_t>(storage_of(program_, storage_).state.value)];
    diagnostic.box = box;
  }

  // Joins missing cells that touch, axis by axis, so that one hole is one finding where it can be.
  void report_missing() {
    for (int axis = 0; axis < piece_.box.count; ++axis) {
      const auto others = [axis](Box box) {
        box[axis] = {};
        return box;
      };
      std::sort(missing_.begin(), missing_.end(), [&](const Box& a, const Box& b) {
        return std::pair(others(a), a[axis]) < std::pair(others(b), b[axis]);
      });
      std::vector<Box> joined;
      for (const Box& box : missing_) {
        if (!joined.empty() && others(joined.back()) == others(box) &&
            joined.back()[axis].end == box[axis].begin) {
          joined.back()[axis].end = box[axis].end;
        } else {
          joined.push_back(box);
        }
      }
      missing_ = std::move(joined);
    }
    for (const Box& box : missing_) {
      Diagnostic diagnostic;
      diagnostic.rule = "V309";
      diagnostic.message =
          "target storage \"" + storage_of(program_, storage_).binding_key + "\" is not filled";
      diagnostic.rank = program_.rank;
      name_place(diagnostic, box);
      findings_.add(std::move(diagnostic));
    }
  }

  const ir::Schedule& schedule_;
  const ir::Program& program_;
  StorageId storage_;
  Before before_;
  const ir::Piece& piece_;
  Budget& budget_;
  Findings& findings_;
  std::vector<Box> missing_;
  std::set<std::tuple<std::string, std::int32_t, int, std::int32_t, int>> reported_;
};

class RankCoverage {
 public:
  RankCoverage(const ir::Schedule& schedule, const ir::Program& program,
               const ProgramPieces& pieces, Budget& budget, Findings& findings)
      : schedule_(schedule),
        program_(program),
        pieces_(pieces),
        budget_(budget),
        findings_(findings),
        before_(program.storages.size(), Before::Absent),
        is_tracked_(program.storages.size(), false) {}

  void check() {
    classify();
    for_each_op(program_, [&](const OpRef& op) {
      if (!is_sound(program_, op)) return;
      collect(op, written_slices(program_, op), true);
      collect(op, read_slices(program_, op), false);
    });
    std::stable_sort(accesses_.begin(), accesses_.end(), [](const Access& a, const Access& b) {
      return std::tie(a.storage, a.piece) < std::tie(b.storage, b.piece);
    });
    std::size_t next = 0;
    for (std::size_t s = 0; s < program_.storages.size() && !budget_.exhausted(); ++s) {
      if (is_tracked_[s]) check_storage(StorageId(static_cast<std::int32_t>(s)), next);
    }
    if (!budget_.exhausted()) return;
    Diagnostic diagnostic;
    diagnostic.rule = "V317";
    diagnostic.message = "the slices up to here address too many separate boxes";
    diagnostic.rank = program_.rank;
    findings_.add(std::move(diagnostic));
  }

 private:
  // An alias stands for its source where both have the same pieces (else V311 is found).
  StorageId subject_of(StorageId id) const {
    const StorageId source = storage_of(program_, id).alias_of;
    if (!source.valid() || storage_of(program_, source).role != ir::StorageRole::Source) return id;
    return pieces_.of(id).pieces() == pieces_.of(source).pieces() ? source : id;
  }

  Before& before(StorageId id) { return before_[static_cast<std::size_t>(id.value)]; }

  // Plain targets are always looked at, sources only when some op writes them.
  void classify() {
    for (std::size_t s = 0; s < program_.storages.size(); ++s) {
      const StorageId id(static_cast<std::int32_t>(s));
      const ir::StorageRole role = program_.storages[s].role;
      if (role == ir::StorageRole::Source && before(id) == Before::Absent) {
        before(id) = Before::Present;
      }
      if (role != ir::StorageRole::Target) continue;
      if (program_.storages[s].alias_of.valid()) {
        before(subject_of(id)) = Before::InPlace;
      } else {
        is_tracked_[s] = true;
      }
    }
    for_each_op(program_, [&](const OpRef& op) {
      for (const ir::Slice& slice : written_slices(program_, op)) {
        for (std::int32_t lane = 0; lane < slice.lanes; ++lane) {
          const StorageId id(slice.storage.value + lane);
          if (has_state(id)) is_tracked_[static_cast<std::size_t>(subject_of(id).value)] = true;
        }
      }
    });
  }

  bool has_state(StorageId id) const {
    const ir::StorageRole role = storage_of(program_, id).role;
    return role == ir::StorageRole::Source || role == ir::StorageRole::Target;
  }

  void collect(const OpRef& op, std::span<const ir::Slice> slices, bool writes) {
    const bool is_message = op.kind == OpKind::Send || op.kind == OpKind::Receive;
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const int number = is_message ? static_cast<int>(i) : (writes ? 1 : 0);
      for (std::int32_t lane = 0; lane < slices[i].lanes; ++lane) {
        const StorageId id(slices[i].storage.value + lane);
        if (!has_state(id)) continue;
        const StorageId subject = subject_of(id);
        if (!is_tracked_[static_cast<std::size_t>(subject.value)]) continue;
        if (writes && before(subject) != Before::Absent) check_rollback(op, number, subject);
        parts_.clear();
        if (!decode_lane(program_, pieces_, slices[i], lane, parts_, budget_)) return;
        for (const Part& part : parts_) {
          if (part.piece < 0) continue;
          accesses_.push_back({subject.value, part.piece, writes, number, op, part.box});
        }
      }
    }
  }

  void check_rollback(const OpRef& op, int slice, StorageId source) {
    const std::int32_t until =
        schedule_.ranks[static_cast<std::size_t>(program_.rank.value)].rollback_until_window;
    const std::int32_t number = program_.windows[static_cast<std::size_t>(op.window)].number;
    if (until >= 0 && number > until) return;
    findings_.add(finding_at(program_, op, slice, "V312",
                             "overwrites source storage " + std::to_string(source.value) + " \"" +
                                 storage_of(program_, source).binding_key +
                                 "\" although the rank can be rolled back " + "until " +
                                 (until < 0 ? "commit" : "window " + std::to_string(until))));
  }

  // `next`: the first access of this storage or a later one.
  void check_storage(StorageId id, std::size_t& next) {
    const std::vector<ir::Piece>& pieces = pieces_.of(id).pieces();
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      std::vector<Access> writes;
      std::vector<Access> reads;
      while (next < accesses_.size() && accesses_[next].storage == id.value &&
             accesses_[next].piece == static_cast<std::int32_t>(p)) {
        (accesses_[next].writes ? writes : reads).push_back(accesses_[next]);
        ++next;
      }
      Subdivision(schedule_, program_, id, before(id), pieces[p], budget_, findings_)
          .run(std::move(writes), std::move(reads));
    }
  }

  const ir::Schedule& schedule_;
  const ir::Program& program_;
  const ProgramPieces& pieces_;
  Budget& budget_;
  Findings& findings_;
  std::vector<Before> before_;    // per storage
  std::vector<bool> is_tracked_;  // per storage
  std::vector<Access> accesses_;
  std::vector<Part> parts_;
};

}  // namespace

void check_coverage(const ir::Schedule& schedule, const ir::Program& program,
                    const ProgramPieces& pieces, Budget& budget, Findings& findings) {
  RankCoverage(schedule, program, pieces, budget, findings).check();
}

}  // namespace plan::verify
