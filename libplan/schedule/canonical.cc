#include "libplan/schedule/canonical.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <utility>

#include "libplan/base/error.h"

namespace plan {
namespace {

using ir::view;

// Copies what one range of `from` holds to the end of `to`.
template <class T>
ir::Range append(const std::vector<T>& from, ir::Range range, std::vector<T>& to) {
  const std::size_t first = to.size();
  const auto entries = view(from, range);
  to.insert(to.end(), entries.begin(), entries.end());
  return ProgramBuilder::since(to, first);
}

class Arranger {
 public:
  Arranger(const ir::Program& from, ir::Program& to) : from_(from), to_(to), builder_(to) {}

  void arrange() {
    to_.rank = from_.rank;
    to_.storages = from_.storages;
    for (ir::Storage& storage : to_.storages) {
      storage.pieces = builder_.add_pieces(view(from_.pieces, storage.pieces));
    }
    to_.windows.reserve(from_.windows.size());
    for (const ir::Window& window : from_.windows) to_.windows.push_back(moved(window));
  }

 private:
  ir::Window moved(const ir::Window& old) {
    ir::Window window;
    window.number = old.number;
    window.depends_on = append(from_.window_numbers, old.depends_on, to_.window_numbers);
    window.allocate = append(from_.storage_ids, old.allocate, to_.storage_ids);
    window.before = moved(old.before);
    window.sends = moved_messages(from_.sends, old.sends, to_.sends);
    window.receives = moved_messages(from_.receives, old.receives, to_.receives);
    window.after = moved(old.after);
    window.free = append(from_.storage_ids, old.free, to_.storage_ids);
    return window;
  }

  ir::LocalOps moved(const ir::LocalOps& old) {
    ir::LocalOps ops;
    ops.copies = append(from_.copies, old.copies, to_.copies);
    for (ir::Copy& copy : tail(to_.copies, ops.copies)) {
      move_dims(copy.from);
      move_dims(copy.to);
    }
    ops.fills = append(from_.fills, old.fills, to_.fills);
    for (ir::Fill& fill : tail(to_.fills, ops.fills)) move_dims(fill.to);
    ops.converts = append(from_.converts, old.converts, to_.converts);
    for (ir::Convert& convert : tail(to_.converts, ops.converts)) {
      move_dims(convert.from);
      move_dims(convert.to);
    }
    return ops;
  }

  template <class Message>
  ir::Range moved_messages(const std::vector<Message>& from, ir::Range range,
                           std::vector<Message>& to) {
    const ir::Range messages = append(from, range, to);
    for (Message& message : tail(to, messages)) {
      message.slices = append(from_.slices, message.slices, to_.slices);
      for (ir::Slice& slice : tail(to_.slices, message.slices)) move_dims(slice);
    }
    return messages;
  }

  void move_dims(ir::Slice& slice) {
    slice.dims = append(from_.slice_dims, slice.dims, to_.slice_dims);
  }

  template <class T>
  static std::span<T> tail(std::vector<T>& array, ir::Range range) {
    return std::span<T>(array).subspan(static_cast<std::size_t>(range.first),
                                       static_cast<std::size_t>(range.count));
  }

  const ir::Program& from_;
  ir::Program& to_;
  ProgramBuilder builder_;
};

// Follows the same walk and compares where each range stands with where it should.
class ArrangementChecker {
 public:
  explicit ArrangementChecker(const ir::Program& program) : program_(program) {}

  bool check() {
    for (const ir::Storage& storage : program_.storages) take_pieces(storage.pieces);
    for (const ir::Window& window : program_.windows) take(window);
    return ok_ && pieces_ == size(program_.pieces) && numbers_ == size(program_.window_numbers) &&
           ids_ == size(program_.storage_ids) && copies_ == size(program_.copies) &&
           fills_ == size(program_.fills) && converts_ == size(program_.converts) &&
           sends_ == size(program_.sends) && receives_ == size(program_.receives) &&
           slices_ == size(program_.slices) && dims_ == size(program_.slice_dims);
  }

 private:
  template <class T>
  static std::int64_t size(const std::vector<T>& array) {
    return static_cast<std::int64_t>(array.size());
  }

  void take(ir::Range range, std::int64_t& next) {
    ok_ = ok_ && range.first == (range.count == 0 ? 0 : next);
    next += range.count;
  }

  void take_pieces(ir::Range range) {
    if (range.count == 0) {
      ok_ = ok_ && range.first == 0;
      return;
    }
    const auto [known, inserted] = piece_lists_.insert(range);
    if (inserted) {
      take(range, pieces_);
    } else {
      ok_ = ok_ && *known == range;
    }
  }

  void take(const ir::Window& window) {
    take(window.depends_on, numbers_);
    take(window.allocate, ids_);
    take(window.before);
    take(window.sends, sends_);
    for (const ir::Send& send : view(program_.sends, window.sends)) take_slices(send.slices);
    take(window.receives, receives_);
    for (const ir::Receive& receive : view(program_.receives, window.receives)) {
      take_slices(receive.slices);
    }
    take(window.after);
    take(window.free, ids_);
  }

  void take(const ir::LocalOps& ops) {
    take(ops.copies, copies_);
    for (const ir::Copy& copy : view(program_.copies, ops.copies)) {
      take(copy.from.dims, dims_);
      take(copy.to.dims, dims_);
    }
    take(ops.fills, fills_);
    for (const ir::Fill& fill : view(program_.fills, ops.fills)) take(fill.to.dims, dims_);
    take(ops.converts, converts_);
    for (const ir::Convert& convert : view(program_.converts, ops.converts)) {
      take(convert.from.dims, dims_);
      take(convert.to.dims, dims_);
    }
  }

  void take_slices(ir::Range range) {
    take(range, slices_);
    for (const ir::Slice& slice : view(program_.slices, range)) take(slice.dims, dims_);
  }

  const ir::Program& program_;
  std::set<ir::Range, PiecesLess> piece_lists_{PiecesLess{&program_.pieces}};
  bool ok_ = true;
  // How much of each array has been met.
  std::int64_t pieces_ = 0;
  std::int64_t numbers_ = 0;
  std::int64_t ids_ = 0;
  std::int64_t copies_ = 0;
  std::int64_t fills_ = 0;
  std::int64_t converts_ = 0;
  std::int64_t sends_ = 0;
  std::int64_t receives_ = 0;
  std::int64_t slices_ = 0;
  std::int64_t dims_ = 0;
};

// Feeds numbers and strings to SHA-256 in one unambiguous form: numbers in little-endian order and
// fixed width, strings and lists after their length.
class ContentHasher {
 public:
  void add(std::int64_t value) { append<8>(static_cast<std::uint64_t>(value)); }
  void add_unsigned(std::uint64_t value) { append<8>(value); }
  void add(std::int32_t value) { append<4>(static_cast<std::uint32_t>(value)); }
  void add(bool value) { append<1>(value ? 1 : 0); }
  template <class Tag>
  void add(Id<Tag> id) {
    add(id.value);
  }
  void add(std::string_view text) {
    add(static_cast<std::int64_t>(text.size()));
    add_raw(text);
  }
  void add_raw(std::string_view bytes) {
    flush();
    hasher_.update(bytes);
  }
  void add(const Dims& dims) {
    add(dims.count);
    for (const std::int64_t value : dims) add(value);
  }
  Sha256Digest finish() {
    flush();
    return hasher_.finish();
  }

 private:
  template <int kBytes>
  void append(std::uint64_t value) {
    if (used_ + kBytes > buffer_.size()) flush();
    for (int i = 0; i < kBytes; ++i) buffer_[used_++] = static_cast<char>(value >> (8 * i));
  }
  void flush() {
    hasher_.update(std::string_view(buffer_.data(), used_));
    used_ = 0;
  }

  Sha256 hasher_;
  std::array<char, 4096> buffer_{};
  std::size_t used_ = 0;
};

class ProgramHasher {
 public:
  explicit ProgramHasher(const ir::Program& program) : program_(program) {}

  Sha256Digest digest() {
    hasher_.add(std::string_view("program"));
    hasher_.add(program_.rank);
    hasher_.add(static_cast<std::int64_t>(program_.storages.size()));
    for (const ir::Storage& storage : program_.storages) add(storage);
    hasher_.add(static_cast<std::int64_t>(program_.windows.size()));
    for (const ir::Window& window : program_.windows) add(window);
    return hasher_.finish();
  }

 private:
  void add(const ir::Storage& storage) {
    hasher_.add(static_cast<std::int32_t>(storage.role));
    hasher_.add(static_cast<std::int32_t>(storage.memory));
    hasher_.add(static_cast<std::int32_t>(storage.dtype));
    hasher_.add(storage.size_bytes);
    hasher_.add(storage.alignment);
    hasher_.add(storage.binding_key);
    hasher_.add(storage.state);
    hasher_.add(storage.alias_of);
    add_all(program_.pieces, storage.pieces);
  }
  void add(const ir::Piece& piece) {
    hasher_.add(piece.tensor);
    hasher_.add(piece.box.count);
    for (int i = 0; i < piece.box.count; ++i) {
      hasher_.add(piece.box[i].begin);
      hasher_.add(piece.box[i].end);
    }
    hasher_.add(piece.offset_elems);
    hasher_.add(piece.strides_elems);
  }
  void add(const ir::Window& window) {
    hasher_.add(window.number);
    add_all(program_.window_numbers, window.depends_on);
    add_all(program_.storage_ids, window.allocate);
    add(window.before);
    add_all(program_.sends, window.sends);
    add_all(program_.receives, window.receives);
    add(window.after);
    add_all(program_.storage_ids, window.free);
  }
  void add(const ir::LocalOps& ops) {
    add_all(program_.copies, ops.copies);
    add_all(program_.fills, ops.fills);
    add_all(program_.converts, ops.converts);
  }
  void add(const ir::Copy& copy) {
    add(copy.from);
    add(copy.to);
  }
  void add(const ir::Fill& fill) {
    add(fill.to);
    hasher_.add_unsigned(fill.pattern);
    hasher_.add(fill.pattern_bytes);
  }
  void add(const ir::Convert& convert) {
    add(convert.from);
    add(convert.to);
    hasher_.add(static_cast<std::int32_t>(convert.from_dtype));
    hasher_.add(static_cast<std::int32_t>(convert.to_dtype));
  }
  void add(const ir::Send& send) {
    hasher_.add(send.to_rank);
    hasher_.add(send.message);
    add_all(program_.slices, send.slices);
  }
  void add(const ir::Receive& receive) {
    hasher_.add(receive.from_rank);
    hasher_.add(receive.message);
    add_all(program_.slices, receive.slices);
  }
  void add(const ir::Slice& slice) {
    hasher_.add(slice.storage);
    hasher_.add(slice.lanes);
    hasher_.add(slice.offset_bytes);
    hasher_.add(slice.run_bytes);
    add_all(program_.slice_dims, slice.dims);
  }
  void add(const ir::SliceDim& dim) {
    hasher_.add(dim.count);
    hasher_.add(dim.stride_bytes);
  }
  void add(std::int32_t number) { hasher_.add(number); }
  void add(StorageId id) { hasher_.add(id); }
  template <class T>
  void add_all(const std::vector<T>& array, ir::Range range) {
    hasher_.add(range.count);
    for (const T& entry : view(array, range)) add(entry);
  }

  const ir::Program& program_;
  ContentHasher hasher_;
};

}  // namespace

ProgramBuilder::ProgramBuilder(ir::Program& program)
    : program_(program), piece_lists_(PiecesLess{&program.pieces}) {}

bool PiecesLess::operator()(ir::Range a, ir::Range b) const {
  const auto left = view(*pieces, a);
  const auto right = view(*pieces, b);
  return std::lexicographical_compare(
      left.begin(), left.end(), right.begin(), right.end(),
      [](const ir::Piece& x, const ir::Piece& y) {
        return std::tie(x.tensor, x.box, x.offset_elems, x.strides_elems) <
               std::tie(y.tensor, y.box, y.offset_elems, y.strides_elems);
      });
}

ir::Range ProgramBuilder::add_pieces(std::span<const ir::Piece> pieces) {
  if (pieces.empty()) return {};
  const std::size_t first = program_.pieces.size();
  program_.pieces.insert(program_.pieces.end(), pieces.begin(), pieces.end());
  const auto [known, inserted] = piece_lists_.insert(since(program_.pieces, first));
  if (!inserted) program_.pieces.resize(first);
  return *known;
}

ir::Range ProgramBuilder::range(std::size_t first, std::size_t end) {
  if (first == end) return {};
  if (end > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw Error(ErrorCode::Unsupported,
                "expected at most 2147483647 entries of one kind in a rank's program, found more");
  }
  return {static_cast<std::int32_t>(first), static_cast<std::int32_t>(end - first)};
}

ir::Program canonical(const ir::Program& program) {
  ir::Program arranged;
  Arranger(program, arranged).arrange();
  return arranged;
}

void canonicalize(ir::Schedule& schedule) {
  for (ir::Program& program : schedule.programs) {
    if (!is_canonical(program)) program = canonical(program);
  }
}

bool is_canonical(const ir::Program& program) { return ArrangementChecker(program).check(); }

Sha256Digest program_digest(const ir::Program& program) { return ProgramHasher(program).digest(); }

std::string digest_from_parts(const ir::Schedule& head, std::span<const ProgramDigest> programs) {
  ContentHasher hasher;
  hasher.add(ir::kFormat);
  hasher.add(ir::kVersion);
  hasher.add(head.request);
  for (const std::string* input : {&head.digests.model, &head.digests.source_layout,
                                   &head.digests.target_layout, &head.digests.topology}) {
    hasher.add(*input);
  }
  hasher.add(head.algorithm);
  hasher.add(head.window_ops);
  hasher.add(head.num_windows);
  hasher.add(static_cast<std::int64_t>(head.ranks.size()));
  for (const ir::RankEntry& entry : head.ranks) {
    hasher.add(entry.rank);
    hasher.add(entry.worker);
    hasher.add(entry.node);
    hasher.add(entry.is_source);
    hasher.add(entry.is_target);
    hasher.add(entry.rollback_until_window);
  }
  hasher.add(static_cast<std::int64_t>(head.tensors.size()));
  for (const ir::TensorEntry& tensor : head.tensors) {
    hasher.add(tensor.name);
    hasher.add(tensor.shape);
    hasher.add(tensor.padding);
  }
  hasher.add(static_cast<std::int64_t>(head.states.size()));
  for (const std::string& state : head.states) hasher.add(state);
  hasher.add(static_cast<std::int64_t>(programs.size()));
  for (const ProgramDigest& program : programs) {
    hasher.add(program.rank);
    hasher.add_raw(std::string_view(reinterpret_cast<const char*>(program.digest.data()),
                                    program.digest.size()));
  }
  return to_hex(hasher.finish());
}

std::string digest(const ir::Schedule& schedule) {
  std::vector<ProgramDigest> programs;
  programs.reserve(schedule.programs.size());
  for (const ir::Program& program : schedule.programs) {
    programs.push_back({program.rank, program_digest(program)});
  }
  return digest_from_parts(schedule, programs);
}

}  // namespace plan
