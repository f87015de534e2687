#include "libplan/schedule/validate_program.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "libplan/base/error.h"
#include "libplan/base/json_tree.h"
#include "libplan/schedule/validate.h"

namespace plan {
namespace {

using std::to_string;

// Where a check stands; turned into text only when it fails.
struct Place {
  std::int32_t rank = -1;
  std::int32_t window = -1;  // its number; -1: outside windows
  std::string_view list;     // "before copies", "storages"
  std::int64_t entry = -1;   // in that list
  std::string_view part;     // "from"
  std::int64_t part_entry = -1;

  std::string text() const {
    std::string text = "rank " + to_string(rank);
    if (window >= 0) text += ", window " + to_string(window);
    if (!list.empty()) text += ", " + std::string(list);
    if (entry >= 0) text += ", entry " + to_string(entry);
    if (!part.empty()) text += ", " + std::string(part);
    if (part_entry >= 0) text += " " + to_string(part_entry);
    return text;
  }
};

[[noreturn]] void fail(const Place& place, const std::string& required, const std::string& found) {
  throw Error(ErrorCode::BadInput, "expected " + required + ", found " + found, place.text());
}

bool is_floating(Dtype dtype) { return dtype <= Dtype::Float8E5M2; }

bool is_known(Dtype dtype) { return dtype <= Dtype::Bool; }

// Counts how often the entries of each array are referred to; see kMaxSharing.
class RangeChecker {
 public:
  explicit RangeChecker(std::string_view array) : array_(array) {}

  void check(std::size_t array_size, ir::Range range, const Place& place) {
    const auto size = static_cast<std::int64_t>(array_size);
    if (range.first < 0 || range.count < 0 || std::int64_t{range.first} + range.count > size) {
      fail(place, "a range inside the " + to_string(size) + " " + std::string(array_),
           "first " + to_string(range.first) + ", count " + to_string(range.count));
    }
    uses_ += range.count;
    if (uses_ > kMaxSharing * size) {
      fail(place,
           "each of the " + to_string(size) + " " + std::string(array_) + " used at most " +
               to_string(kMaxSharing) + " times on average",
           "more");
    }
  }

 private:
  std::string_view array_;
  std::int64_t uses_ = 0;
};

class ProgramChecker {
 public:
  ProgramChecker(const ir::Schedule& schedule, const ir::Program& program)
      : schedule_(schedule), program_(program) {
    place_.rank = program.rank.value;
  }

  void check() {
    check_array_sizes();
    check_storages();
    find_equal_sizes();
    std::int32_t before = -1;
    for (const ir::Window& window : program_.windows) {
      at("windows");
      if (window.number <= before || window.number >= schedule_.num_windows) {
        fail(place_,
             "a window number above " + to_string(before) + " and below " +
                 to_string(schedule_.num_windows),
             to_string(window.number));
      }
      before = window.number;
      place_.window = window.number;
      check(window);
      place_.window = -1;
    }
  }

 private:
  void at(std::string_view list, std::int64_t entry = -1) {
    place_.list = list;
    place_.entry = entry;
    at_part({});
  }
  void at_part(std::string_view part, std::int64_t entry = -1) {
    place_.part = part;
    place_.part_entry = entry;
  }

  void check_array_sizes() {
    const auto check_size = [&](std::size_t size, std::string_view name) {
      if (size <= static_cast<std::size_t>(kMaxEntries)) return;
      at(name);
      fail(place_, "at most " + to_string(kMaxEntries) + " entries", to_string(size));
    };
    check_size(program_.storages.size(), "storages");
    check_size(program_.pieces.size(), "pieces");
    check_size(program_.windows.size(), "windows");
    check_size(program_.window_numbers.size(), "window numbers");
    check_size(program_.storage_ids.size(), "storage ids");
    check_size(program_.copies.size(), "copies");
    check_size(program_.fills.size(), "fills");
    check_size(program_.converts.size(), "converts");
    check_size(program_.sends.size(), "sends");
    check_size(program_.receives.size(), "receives");
    check_size(program_.slices.size(), "slices");
    check_size(program_.slice_dims.size(), "slice dims");
  }

  void check_storages() {
    std::int64_t total_bytes = 0;
    std::set<std::tuple<ir::StorageRole, StateId, std::string_view>> keys;
    std::set<StorageId> taken_over;
    for (std::size_t i = 0; i < program_.storages.size(); ++i) {
      const ir::Storage& storage = program_.storages[i];
      at("storages", static_cast<std::int64_t>(i));
      check_kind(storage);
      if (storage.size_bytes < 0 ||
          __builtin_add_overflow(total_bytes, storage.size_bytes, &total_bytes)) {
        fail(place_, "a size >= 0 and a sum of sizes that fits 64 bits",
             to_string(storage.size_bytes) + " bytes");
      }
      const std::int64_t alignment = storage.alignment;
      if (alignment < 1 || alignment > kMaxAlignmentBytes || (alignment & (alignment - 1)) != 0) {
        fail(place_, "an alignment that is a power of two up to " + to_string(kMaxAlignmentBytes),
             to_string(alignment));
      }
      check_binding(storage);
      if (storage.role != ir::StorageRole::Scratch &&
          !keys.emplace(storage.role, storage.state, storage.binding_key).second) {
        fail(place_, "a binding key that no other storage of this role and state has",
             json_quote(storage.binding_key));
      }
      if (storage.alias_of != StorageId()) check_alias(storage, taken_over);
      check_pieces(storage);
    }
  }

  void check_kind(const ir::Storage& storage) {
    if (storage.role > ir::StorageRole::Opaque) {
      fail(place_, "a known role", "role " + to_string(static_cast<int>(storage.role)));
    }
    if (storage.memory > MemoryKind::File) {
      fail(place_, "a known memory kind",
           "memory kind " + to_string(static_cast<int>(storage.memory)));
    }
    if (!is_known(storage.dtype)) {
      fail(place_, "a known dtype", "dtype " + to_string(static_cast<int>(storage.dtype)));
    }
  }

  void check_binding(const ir::Storage& storage) {
    const bool has_state =
        storage.role == ir::StorageRole::Source || storage.role == ir::StorageRole::Target;
    const std::int32_t state = storage.state.value;
    const auto num_states = static_cast<std::int64_t>(schedule_.states.size());
    if (has_state ? state < 0 || state >= num_states : state != -1) {
      fail(place_,
           has_state ? "one of the " + to_string(num_states) + " states"
                     : "no state (-1) for scratch and opaque storage",
           "state " + to_string(state));
    }
    const std::string& key = storage.binding_key;
    if (key.size() > static_cast<std::size_t>(kMaxNameBytes)) {
      fail(place_, "a binding key of at most " + to_string(kMaxNameBytes) + " bytes",
           to_string(key.size()) + " bytes");
    }
    if (!is_utf8(key)) fail(place_, "a binding key in UTF-8", "other bytes");
    if (storage.role == ir::StorageRole::Scratch && !key.empty()) {
      fail(place_, "no binding key for scratch", json_quote(key));
    }
  }

  void check_alias(const ir::Storage& storage, std::set<StorageId>& taken_over) {
    const StorageId source = storage.alias_of;
    if (storage.role != ir::StorageRole::Target) {
      fail(place_, "alias_of on a target storage only",
           "role " + std::string(name_of(storage.role)));
    }
    const bool exists =
        source.valid() && static_cast<std::size_t>(source.value) < program_.storages.size();
    if (!exists ||
        program_.storages[static_cast<std::size_t>(source.value)].role != ir::StorageRole::Source) {
      fail(place_, "alias_of a source storage of this rank", "storage " + to_string(source.value));
    }
    const std::int64_t size = program_.storages[static_cast<std::size_t>(source.value)].size_bytes;
    if (size != storage.size_bytes) {
      fail(place_, "an alias of the source's size, " + to_string(size) + " bytes",
           to_string(storage.size_bytes) + " bytes");
    }
    if (!taken_over.insert(source).second) {
      fail(place_, "a source that no other storage takes over",
           "storage " + to_string(source.value) + " again");
    }
  }

  void check_pieces(const ir::Storage& storage) {
    at_part("pieces");
    piece_ranges_.check(program_.pieces.size(), storage.pieces, place_);
    const std::int64_t size_elems = storage.size_bytes / size_bytes(storage.dtype);
    std::int64_t index = 0;
    for (const ir::Piece& piece : view(program_.pieces, storage.pieces)) {
      at_part("piece", index++);
      check(piece, size_elems);
    }
  }

  void check(const ir::Piece& piece, std::int64_t size_elems) {
    const auto tensor = static_cast<std::size_t>(piece.tensor.value);
    if (!piece.tensor.valid() || tensor >= schedule_.tensors.size()) {
      fail(place_, "one of the " + to_string(schedule_.tensors.size()) + " tensors",
           "tensor " + to_string(piece.tensor.value));
    }
    const Dims& shape = schedule_.tensors[tensor].shape;
    if (piece.box.count != shape.count || piece.strides_elems.count != shape.count) {
      fail(place_, "a box and strides of " + to_string(shape.count) + " dimensions",
           to_string(piece.box.count) + " and " + to_string(piece.strides_elems.count));
    }
    if (piece.offset_elems < 0) {
      fail(place_, "an offset >= 0", to_string(piece.offset_elems) + " elements");
    }
    std::int64_t last = piece.offset_elems;
    bool fits = true;
    for (int axis = 0; axis < kMaxDims; ++axis) {
      const Interval interval = piece.box[axis];
      const std::int64_t stride = piece.strides_elems[axis];
      if (axis >= shape.count) {
        if (interval == Interval{} && stride == 0) continue;
        fail(place_, "zeros beyond the last dimension", "other numbers");
      }
      if (interval.begin < 0 || interval.begin >= interval.end || interval.end > shape[axis]) {
        fail(place_,
             "on axis " + to_string(axis) + " a part of [0, " + to_string(shape[axis]) +
                 "), not empty",
             "[" + to_string(interval.begin) + ", " + to_string(interval.end) + ")");
      }
      if (stride < 0) fail(place_, "strides >= 0", to_string(stride));
      std::int64_t reach = 0;
      fits = fits && !__builtin_mul_overflow(interval.length() - 1, stride, &reach) &&
             !__builtin_add_overflow(last, reach, &last);
    }
    if (!fits || last >= size_elems) {
      fail(place_, "elements inside the storage's " + to_string(size_elems),
           fits ? "the last one at " + to_string(last) : "an offset beyond 64 bits");
    }
  }

  // same_size_until_[i]: end of the run of consecutive storages of one size that i belongs to, so
  // that lanes are checked without a loop over them.
  void find_equal_sizes() {
    const std::size_t count = program_.storages.size();
    same_size_until_.resize(count);
    for (std::size_t i = count; i-- > 0;) {
      const bool same =
          i + 1 < count && program_.storages[i].size_bytes == program_.storages[i + 1].size_bytes;
      same_size_until_[i] = same ? same_size_until_[i + 1] : static_cast<std::int64_t>(i) + 1;
    }
  }

  void check(const ir::Window& window) {
    at("depends_on");
    number_ranges_.check(program_.window_numbers.size(), window.depends_on, place_);
    for (const std::int32_t number : view(program_.window_numbers, window.depends_on)) {
      const auto found = std::lower_bound(
          program_.windows.begin(), program_.windows.end(), number,
          [](const ir::Window& w, std::int32_t wanted) { return w.number < wanted; });
      if (number >= window.number || found == program_.windows.end() || found->number != number) {
        fail(place_, "an earlier window of this program", "window " + to_string(number));
      }
    }
    check_storage_ids("allocate", window.allocate);
    check(window.before, "before copies", "before fills", "before converts");
    check_messages("sends", program_.sends, window.sends, send_ranges_,
                   [](const ir::Send& send) { return send.to_rank; });
    check_messages("receives", program_.receives, window.receives, receive_ranges_,
                   [](const ir::Receive& receive) { return receive.from_rank; });
    at("sends and receives");
    const std::int64_t messages = std::int64_t{window.sends.count} + window.receives.count;
    if (messages > schedule_.window_ops) {
      fail(place_, "at most " + to_string(schedule_.window_ops) + " in one window",
           to_string(messages));
    }
    check(window.after, "after copies", "after fills", "after converts");
    check_storage_ids("free", window.free);
  }

  void check_storage_ids(std::string_view list, ir::Range range) {
    at(list);
    id_ranges_.check(program_.storage_ids.size(), range, place_);
    for (const StorageId id : view(program_.storage_ids, range)) {
      if (id.valid() && static_cast<std::size_t>(id.value) < program_.storages.size()) continue;
      fail(place_, "one of the " + to_string(program_.storages.size()) + " storages",
           "storage " + to_string(id.value));
    }
  }

  void check(const ir::LocalOps& ops, std::string_view copies, std::string_view fills,
             std::string_view converts) {
    at(copies);
    copy_ranges_.check(program_.copies.size(), ops.copies, place_);
    std::int64_t index = 0;
    for (const ir::Copy& copy : view(program_.copies, ops.copies)) {
      at(copies, index++);
      const std::int64_t from = check_side("from", copy.from);
      const std::int64_t to = check_side("to", copy.to);
      at_part({});
      if (from != to) {
        fail(place_, "as many bytes to write as are read, " + to_string(from), to_string(to));
      }
    }
    at(fills);
    fill_ranges_.check(program_.fills.size(), ops.fills, place_);
    index = 0;
    for (const ir::Fill& fill : view(program_.fills, ops.fills)) {
      at(fills, index++);
      check(fill);
    }
    at(converts);
    convert_ranges_.check(program_.converts.size(), ops.converts, place_);
    index = 0;
    for (const ir::Convert& convert : view(program_.converts, ops.converts)) {
      at(converts, index++);
      check(convert);
    }
  }

  void check(const ir::Fill& fill) {
    const std::int32_t bytes = fill.pattern_bytes;
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) {
      fail(place_, "pattern_bytes 1, 2, 4 or 8", to_string(bytes));
    }
    check_side("to", fill.to);
    if (fill.to.run_bytes % bytes != 0) {
      fail(place_, "runs of whole patterns of " + to_string(bytes) + " bytes",
           to_string(fill.to.run_bytes) + " bytes");
    }
  }

  void check(const ir::Convert& convert) {
    const std::int64_t from = check_elements("from", convert.from, convert.from_dtype);
    const std::int64_t to = check_elements("to", convert.to, convert.to_dtype);
    at_part({});
    if (from != to) {
      fail(place_, "as many elements to write as are read, " + to_string(from), to_string(to));
    }
  }

  // Elements of one side of a convert.
  std::int64_t check_elements(std::string_view side, const ir::Slice& slice, Dtype dtype) {
    at_part(side);
    if (!is_known(dtype) || !is_floating(dtype)) {
      fail(place_, "a floating-point dtype",
           is_known(dtype) ? std::string(name_of(dtype)) : to_string(static_cast<int>(dtype)));
    }
    const std::int64_t bytes = check_side(side, slice);
    const std::int64_t size = size_bytes(dtype);
    bool whole = slice.offset_bytes % size == 0 && slice.run_bytes % size == 0;
    for (const ir::SliceDim& dim : view(program_.slice_dims, slice.dims)) {
      whole = whole && dim.stride_bytes % size == 0;
    }
    if (!whole) {
      fail(place_, "offset, run and strides in whole elements of " + to_string(size) + " bytes",
           "others");
    }
    return bytes / size;
  }

  template <class Message, class Peer>
  void check_messages(std::string_view list, const std::vector<Message>& array, ir::Range range,
                      RangeChecker& ranges, Peer peer_of) {
    at(list);
    ranges.check(array.size(), range, place_);
    std::int32_t before = -1;
    std::int64_t index = 0;
    for (const Message& message : view(array, range)) {
      at(list, index++);
      const std::int32_t peer = peer_of(message).value;
      if (peer < 0 || static_cast<std::size_t>(peer) >= schedule_.ranks.size() ||
          peer == program_.rank.value) {
        fail(place_, "another one of the " + to_string(schedule_.ranks.size()) + " ranks as peer",
             "rank " + to_string(peer));
      }
      if (peer <= before) {
        fail(place_, "peers ascending, above rank " + to_string(before), "rank " + to_string(peer));
      }
      before = peer;
      if (message.message < 0) {
        fail(place_, "a message number >= 0", to_string(message.message));
      }
      at_part("slices");
      slice_ranges_.check(program_.slices.size(), message.slices, place_);
      std::int64_t total = 0;
      std::int64_t slice_index = 0;
      for (const ir::Slice& slice : view(program_.slices, message.slices)) {
        at_part("slice", slice_index++);
        if (__builtin_add_overflow(total, check_slice(slice), &total)) {
          fail(place_, "a message whose size fits 64 bits", "a larger one");
        }
      }
    }
  }

  std::int64_t check_side(std::string_view side, const ir::Slice& slice) {
    at_part(side);
    return check_slice(slice);
  }

  // Bytes over all lanes.
  std::int64_t check_slice(const ir::Slice& slice) {
    const auto storage = static_cast<std::size_t>(slice.storage.value);
    if (!slice.storage.valid() || storage >= program_.storages.size()) {
      fail(place_, "one of the " + to_string(program_.storages.size()) + " storages",
           "storage " + to_string(slice.storage.value));
    }
    if (slice.lanes < 1 ||
        std::int64_t{slice.storage.value} + slice.lanes > same_size_until_[storage]) {
      fail(place_,
           "1 to " + to_string(same_size_until_[storage] - slice.storage.value) +
               " lanes (storages of one size that follow each other)",
           to_string(slice.lanes));
    }
    if (slice.offset_bytes < 0 || slice.run_bytes < 1) {
      fail(place_, "offset_bytes >= 0 and run_bytes >= 1",
           to_string(slice.offset_bytes) + " and " + to_string(slice.run_bytes));
    }
    if (slice.dims.count > kMaxSliceDims) {
      fail(place_, "at most " + to_string(kMaxSliceDims) + " dims", to_string(slice.dims.count));
    }
    dim_ranges_.check(program_.slice_dims.size(), slice.dims, place_);
    std::int64_t extent = slice.run_bytes;  // from the first byte to behind the last one
    std::int64_t bytes = slice.run_bytes;   // of one lane
    std::int64_t end = 0;
    bool fits = true;
    for (const ir::SliceDim& dim : view(program_.slice_dims, slice.dims)) {
      if (dim.count < 1 || dim.stride_bytes < 0) {
        fail(place_, "dims of count >= 1 and stride_bytes >= 0",
             to_string(dim.count) + " and " + to_string(dim.stride_bytes));
      }
      std::int64_t reach = 0;
      fits = fits && !__builtin_mul_overflow(dim.count - 1, dim.stride_bytes, &reach) &&
             !__builtin_add_overflow(extent, reach, &extent) &&
             !__builtin_mul_overflow(bytes, dim.count, &bytes);
    }
    fits = fits && !__builtin_add_overflow(slice.offset_bytes, extent, &end);
    const std::int64_t size = program_.storages[storage].size_bytes;
    if (!fits || end > size) {
      fail(place_,
           "bytes inside storage " + to_string(slice.storage.value) + " of " + to_string(size) +
               " bytes",
           fits ? "an end at " + to_string(end) : "an end beyond 64 bits");
    }
    if (bytes > extent) {
      fail(place_, "each byte once, so at most " + to_string(extent) + " bytes", to_string(bytes));
    }
    return slice.lanes * bytes;  // <= the sum of the storages' sizes, which fits
  }

  const ir::Schedule& schedule_;
  const ir::Program& program_;
  Place place_;
  std::vector<std::int64_t> same_size_until_;
  RangeChecker piece_ranges_{"pieces"};
  RangeChecker number_ranges_{"window numbers"};
  RangeChecker id_ranges_{"storage ids"};
  RangeChecker copy_ranges_{"copies"};
  RangeChecker fill_ranges_{"fills"};
  RangeChecker convert_ranges_{"converts"};
  RangeChecker send_ranges_{"sends"};
  RangeChecker receive_ranges_{"receives"};
  RangeChecker slice_ranges_{"slices"};
  RangeChecker dim_ranges_{"slice dims"};
};

}  // namespace

void validate_program(const ir::Schedule& schedule, const ir::Program& program) {
  ProgramChecker(schedule, program).check();
}

}  // namespace plan
