#include "libplan/verify/structure.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plan::verify {
namespace {

// A slice of a box has at most one loop for each axis; two more for split loops.
constexpr std::int32_t kMaxSliceDims = kMaxDims + 2;

// Sums and products that remember an overflow instead of throwing.
struct Checked {
  std::int64_t value = 0;
  bool overflow = false;

  void add(std::int64_t other) {
    overflow = __builtin_add_overflow(value, other, &value) || overflow;
  }
  void multiply(std::int64_t other) {
    overflow = __builtin_mul_overflow(value, other, &value) || overflow;
  }
  void add_product(std::int64_t a, std::int64_t b) {
    Checked product{a};
    product.multiply(b);
    overflow = overflow || product.overflow;
    add(product.value);
  }
};

template <class T>
std::int64_t size_of(const std::vector<T>& array) {
  return static_cast<std::int64_t>(array.size());
}

class ProgramStructure {
 public:
  ProgramStructure(const ir::Schedule& schedule, const ir::Program& program, Findings& findings)
      : schedule_(schedule), program_(program), findings_(findings) {}

  void check() {
    check_storages();
    for (const ir::Storage& storage : program_.storages) check_pieces(storage);
    for (const ir::Slice& slice : program_.slices) check_slice(slice, "slice of a message");
    check_local_ops();
    check_messages();
    check_windows();
  }

 private:
  void add(std::string_view rule, std::string message) {
    Diagnostic diagnostic;
    diagnostic.rule = rule;
    diagnostic.message = std::move(message);
    diagnostic.rank = program_.rank;
    diagnostic.window = window_;
    findings_.add(std::move(diagnostic));
  }

  template <class T>
  bool check_range(ir::Range range, const std::vector<T>& array, std::string_view name) {
    const std::int64_t end = std::int64_t{range.first} + range.count;
    if (range.first >= 0 && range.count >= 0 && end <= size_of(array)) return true;
    add("V003", "expected a range of the " + std::to_string(array.size()) + " " +
                    std::string(name) + ", found first " + std::to_string(range.first) +
                    ", count " + std::to_string(range.count));
    return false;
  }

  bool is_storage(std::int64_t id) const { return id >= 0 && id < size_of(program_.storages); }

  void check_storages() {
    Checked total;
    for (std::size_t i = 0; i < program_.storages.size(); ++i) {
      const ir::Storage& storage = program_.storages[i];
      const std::string name = "storage " + std::to_string(i);
      if (storage.role > ir::StorageRole::Opaque || storage.memory > MemoryKind::File ||
          storage.dtype > Dtype::Bool) {
        add("V004", name + " has an unknown role, memory or dtype");
      }
      if (storage.size_bytes < 0 || storage.alignment < 1) {
        add("V005", "expected size >= 0 and alignment >= 1 of " + name + ", found " +
                        std::to_string(storage.size_bytes) + " and " +
                        std::to_string(storage.alignment));
      }
      const bool has_state =
          storage.role == ir::StorageRole::Source || storage.role == ir::StorageRole::Target;
      const bool state_exists =
          storage.state.valid() && storage.state.value < size_of(schedule_.states);
      if (has_state ? !state_exists : storage.state.valid()) {
        add("V004", name + " has state " + std::to_string(storage.state.value) + " of " +
                        std::to_string(schedule_.states.size()));
      }
      if (storage.alias_of.valid() && !is_storage(storage.alias_of.value)) {
        add("V004", name + " is an alias of storage " + std::to_string(storage.alias_of.value) +
                        ", which does not exist");
      }
      total.add(std::max<std::int64_t>(storage.size_bytes, 0));
    }
    if (total.overflow) add("V006", "the sizes of the storages do not fit 64 bits");
  }

  void check_pieces(const ir::Storage& storage) {
    if (!check_range(storage.pieces, program_.pieces, "pieces")) return;
    if (storage.dtype > Dtype::Bool) return;
    const std::int64_t elements = storage.size_bytes / size_bytes(storage.dtype);
    for (const ir::Piece& piece : ir::view(program_.pieces, storage.pieces)) {
      const std::string fault = piece_fault(piece, elements);
      if (!fault.empty()) add("V008", "piece of storage \"" + storage.binding_key + "\": " + fault);
    }
  }

  std::string piece_fault(const ir::Piece& piece, std::int64_t elements) const {
    if (!piece.tensor.valid() || piece.tensor.value >= size_of(schedule_.tensors)) {
      return "tensor " + std::to_string(piece.tensor.value) + " does not exist";
    }
    const ir::TensorEntry& tensor = schedule_.tensors[static_cast<std::size_t>(piece.tensor.value)];
    if (piece.box.count < 0 || piece.box.count > kMaxDims ||
        piece.box.count != tensor.shape.count || piece.strides_elems.count != piece.box.count) {
      return "its dimensions are not those of " + tensor.name;
    }
    for (int axis = piece.box.count; axis < kMaxDims; ++axis) {
      if (piece.box[axis] != Interval{} || piece.strides_elems[axis] != 0) {
        return "an unused dimension is not 0";
      }
    }
    Checked last{piece.offset_elems};
    Checked volume{1};
    for (int axis = 0; axis < piece.box.count; ++axis) {
      const Interval& interval = piece.box[axis];
      // Padding has as many rows as its side needs.
      const bool bounded = !(tensor.padding && axis == 0);
      if (interval.begin < 0 || interval.empty() ||
          (bounded && interval.end > tensor.shape[axis])) {
        return "its box is empty or outside " + tensor.name;
      }
      const std::int64_t extent = interval.length();
      const std::int64_t stride = piece.strides_elems[axis];
      if (stride < 0 || (stride == 0 && extent > 1)) return "a stride is not positive";
      last.add_product(extent - 1, stride);
      volume.multiply(extent);
    }
    if (piece.offset_elems < 0 || last.overflow || last.value >= elements || volume.overflow ||
        volume.value > elements) {
      return "its elements lie outside the storage";
    }
    return strides_nest(piece) ? "" : "its strides do not nest, so that elements may coincide";
  }

  // Each stride steps over all that the axes of smaller strides reach.
  static bool strides_nest(const ir::Piece& piece) {
    std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // stride, extent
    for (int axis = 0; axis < piece.box.count; ++axis) {
      if (piece.box[axis].length() > 1) {
        axes.emplace_back(piece.strides_elems[axis], piece.box[axis].length());
      }
    }
    std::sort(axes.begin(), axes.end());
    std::int64_t reach = 0;
    for (const auto& [stride, extent] : axes) {
      if (stride <= reach) return false;
      reach += (extent - 1) * stride;
    }
    return true;
  }

  void check_slice(const ir::Slice& slice, std::string_view owner) {
    const std::string name(owner);
    if (slice.lanes < 1 || slice.offset_bytes < 0 || slice.run_bytes < 0) {
      add("V005", name + ": expected lanes >= 1, offset >= 0 and run >= 0, found " +
                      std::to_string(slice.lanes) + ", " + std::to_string(slice.offset_bytes) +
                      " and " + std::to_string(slice.run_bytes));
      return;
    }
    if (!slice.storage.valid() ||
        !is_storage(std::int64_t{slice.storage.value} + slice.lanes - 1)) {
      add("V004", name + ": storage " + std::to_string(slice.storage.value) + " with " +
                      std::to_string(slice.lanes) + " lanes does not exist");
    }
    if (!check_range(slice.dims, program_.slice_dims, "slice dimensions")) return;
    if (slice.dims.count > kMaxSliceDims) {
      add("V005", name + ": expected at most " + std::to_string(kMaxSliceDims) +
                      " dimensions, found " + std::to_string(slice.dims.count));
      return;
    }
    Checked end{slice.offset_bytes};
    Checked bytes{slice.run_bytes};
    end.add(slice.run_bytes);
    bytes.multiply(slice.lanes);
    for (const ir::SliceDim& dim : ir::view(program_.slice_dims, slice.dims)) {
      if (dim.count < 0 || dim.stride_bytes < 0) {
        add("V005", name + ": expected count >= 0 and stride >= 0, found " +
                        std::to_string(dim.count) + " and " + std::to_string(dim.stride_bytes));
        return;
      }
      if (dim.count > 0) end.add_product(dim.count - 1, dim.stride_bytes);
      bytes.multiply(dim.count);
    }
    if (end.overflow || bytes.overflow) add("V006", name + ": its bytes do not fit 64 bits");
  }

  void check_local_ops() {
    for (const ir::Copy& copy : program_.copies) {
      check_slice(copy.from, "copy");
      check_slice(copy.to, "copy");
    }
    for (const ir::Fill& fill : program_.fills) {
      check_slice(fill.to, "fill");
      const std::int32_t bytes = fill.pattern_bytes;
      if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) {
        add("V005",
            "fill: expected a pattern of 1, 2, 4 or 8 bytes, found " + std::to_string(bytes));
      }
    }
    for (const ir::Convert& convert : program_.converts) {
      check_slice(convert.from, "convert");
      check_slice(convert.to, "convert");
      if (convert.from_dtype > Dtype::Bool || convert.to_dtype > Dtype::Bool) {
        add("V004", "convert: unknown dtype");
      }
    }
  }

  void check_message(RankId peer, ir::Range slices, const std::string& name) {
    if (!peer.valid() || peer.value >= size_of(schedule_.ranks)) {
      add("V004", name + ": rank " + std::to_string(peer.value) + " does not exist");
    }
    if (!check_range(slices, program_.slices, "slices")) return;
    Checked total;
    for (const ir::Slice& slice : ir::view(program_.slices, slices)) {
      Checked bytes{slice.run_bytes};
      bytes.multiply(slice.lanes);
      const std::int64_t end = std::int64_t{slice.dims.first} + slice.dims.count;
      if (slice.dims.first < 0 || slice.dims.count < 0 || end > size_of(program_.slice_dims))
        return;
      if (slice.dims.count > kMaxSliceDims) return;
      for (const ir::SliceDim& dim : ir::view(program_.slice_dims, slice.dims)) {
        bytes.multiply(dim.count);
      }
      total.overflow = total.overflow || bytes.overflow;
      total.add(bytes.value);
    }
    if (total.overflow) add("V006", name + ": its bytes do not fit 64 bits");
  }

  void check_messages() {
    for (const ir::Send& send : program_.sends) {
      check_message(send.to_rank, send.slices, "send " + std::to_string(send.message));
    }
    for (const ir::Receive& receive : program_.receives) {
      check_message(receive.from_rank, receive.slices,
                    "receive " + std::to_string(receive.message));
    }
  }

  // The ranges of all windows, by array; those of ops may not overlap.
  struct OpRanges {
    std::vector<ir::Range> copies, fills, converts, sends, receives, storage_ids, window_numbers;
  };

  void check_local(const ir::LocalOps& ops, OpRanges& ranges) {
    if (check_range(ops.copies, program_.copies, "copies")) ranges.copies.push_back(ops.copies);
    if (check_range(ops.fills, program_.fills, "fills")) ranges.fills.push_back(ops.fills);
    if (check_range(ops.converts, program_.converts, "converts")) {
      ranges.converts.push_back(ops.converts);
    }
  }

  void check_storage_ids(ir::Range range, OpRanges& ranges) {
    if (!check_range(range, program_.storage_ids, "storage ids")) return;
    ranges.storage_ids.push_back(range);
    for (const StorageId id : ir::view(program_.storage_ids, range)) {
      if (!is_storage(id.value)) {
        add("V004", "storage " + std::to_string(id.value) + " does not exist");
      }
    }
  }

  void check_windows() {
    OpRanges ranges;
    std::int32_t previous = -1;
    for (const ir::Window& window : program_.windows) {
      window_ = window.number;
      if (window.number <= previous || window.number >= schedule_.num_windows) {
        add("V007", "expected a number above " + std::to_string(previous) + " and below " +
                        std::to_string(schedule_.num_windows));
      }
      previous = window.number;
      check_storage_ids(window.allocate, ranges);
      check_local(window.before, ranges);
      if (check_range(window.sends, program_.sends, "sends")) ranges.sends.push_back(window.sends);
      if (check_range(window.receives, program_.receives, "receives")) {
        ranges.receives.push_back(window.receives);
      }
      check_local(window.after, ranges);
      check_storage_ids(window.free, ranges);
      if (check_range(window.depends_on, program_.window_numbers, "window numbers")) {
        ranges.window_numbers.push_back(window.depends_on);
        for (const std::int32_t number : ir::view(program_.window_numbers, window.depends_on)) {
          if (number < 0 || number >= schedule_.num_windows) {
            add("V007", "depends on window " + std::to_string(number) + ", which does not exist");
          }
        }
      }
    }
    window_.reset();
    check_disjoint(ranges.copies, "copies");
    check_disjoint(ranges.fills, "fills");
    check_disjoint(ranges.converts, "converts");
    check_disjoint(ranges.sends, "sends");
    check_disjoint(ranges.receives, "receives");
    check_total(ranges.storage_ids, program_.storage_ids.size(), "storage ids");
    check_total(ranges.window_numbers, program_.window_numbers.size(), "window numbers");
  }

  void check_disjoint(std::vector<ir::Range>& ranges, std::string_view name) {
    std::erase_if(ranges, [](const ir::Range& range) { return range.count == 0; });
    std::sort(ranges.begin(), ranges.end(),
              [](const ir::Range& a, const ir::Range& b) { return a.first < b.first; });
    for (std::size_t i = 1; i < ranges.size(); ++i) {
      if (ranges[i - 1].first + ranges[i - 1].count > ranges[i].first) {
        add("V009", "the " + std::string(name) + " from " + std::to_string(ranges[i].first) +
                        " on belong to two places");
        return;
      }
    }
  }

  // Lists may be shared, but not so often that walking them takes the square of the plan's size.
  void check_total(const std::vector<ir::Range>& ranges, std::size_t size, std::string_view name) {
    std::int64_t total = 0;
    for (const ir::Range& range : ranges) total += range.count;
    const auto most = static_cast<std::int64_t>(4 * (size + ranges.size()) + 1024);
    if (total <= most) return;
    add("V005", "expected at most " + std::to_string(most) + " " + std::string(name) +
                    " in all windows, found " + std::to_string(total));
  }

  const ir::Schedule& schedule_;
  const ir::Program& program_;
  Findings& findings_;
  std::optional<std::int32_t> window_;
};

void add(Findings& findings, std::string_view rule, std::string message) {
  Diagnostic diagnostic;
  diagnostic.rule = rule;
  diagnostic.message = std::move(message);
  findings.add(std::move(diagnostic));
}

void check_tables(const ir::Schedule& schedule, Findings& findings) {
  if (schedule.num_windows < 0 || schedule.window_ops < 1) {
    add(findings, "V005",
        "expected num_windows >= 0 and window_ops >= 1, found " +
            std::to_string(schedule.num_windows) + " and " + std::to_string(schedule.window_ops));
  }
  std::int32_t previous = -1;
  for (std::size_t i = 0; i < schedule.ranks.size(); ++i) {
    const ir::RankEntry& entry = schedule.ranks[i];
    if (entry.rank.value != static_cast<std::int64_t>(i) || entry.worker.value <= previous) {
      add(findings, "V001",
          "entry " + std::to_string(i) + " has rank " + std::to_string(entry.rank.value) +
              " and worker " + std::to_string(entry.worker.value));
    }
    previous = entry.worker.value;
    if (entry.rollback_until_window < -1 || entry.rollback_until_window >= schedule.num_windows) {
      add(findings, "V005",
          "rank " + std::to_string(i) + " can be rolled back until window " +
              std::to_string(entry.rollback_until_window) + ", which does not exist");
    }
  }
  std::set<std::string_view> names;
  for (const ir::TensorEntry& tensor : schedule.tensors) {
    if (!names.insert(tensor.name).second) add(findings, "V010", "tensor " + tensor.name);
    if (tensor.shape.count < 0 || tensor.shape.count > kMaxDims) {
      add(findings, "V005",
          "tensor " + tensor.name + " has " + std::to_string(tensor.shape.count) + " dimensions");
    }
  }
  names.clear();
  for (const std::string& state : schedule.states) {
    if (!names.insert(state).second) add(findings, "V010", "state " + state);
  }
}

}  // namespace

void check_structure(const ir::Schedule& schedule, Findings& findings) {
  check_tables(schedule, findings);
  std::set<std::int32_t> seen;
  for (const ir::Program& program : schedule.programs) {
    const std::int32_t rank = program.rank.value;
    if (rank < 0 || rank >= size_of(schedule.ranks) || !seen.insert(rank).second) {
      add(findings, "V002", "program of rank " + std::to_string(rank));
    }
    ProgramStructure(schedule, program, findings).check();
  }
}

}  // namespace plan::verify
