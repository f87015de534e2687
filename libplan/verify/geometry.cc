#include "libplan/verify/geometry.h"

#include <algorithm>
#include <tuple>

#include "libplan/verify/ops.h"

namespace plan::verify {
namespace {

// The index of the element `rest` behind the piece's first one, axis by axis of falling stride:
// strides nest (structure.cc), so each division has one answer. False when no element lies there.
bool invert(const ir::Piece& piece, std::span<const int> axes, std::int64_t rest, Box& index) {
  for (const int axis : axes) {
    const std::int64_t i = rest / piece.strides_elems[axis];
    if (i >= piece.box[axis].length()) return false;
    index[axis] = {i, i + 1};
    rest -= i * piece.strides_elems[axis];
  }
  return rest == 0;
}

// Fits loops, innermost first, to the axes of a piece, last axis first.
class BoxFit {
 public:
  BoxFit(const ir::Piece& piece, const Box& first) : piece_(piece), box_(first) {
    axis_ = piece.box.count - 1;
  }

  // The whole loop; false when it does not fit.
  bool fit_whole(PieceIndex::Loop loop) {
    while (loop.count > 1) {
      const int axis = axis_with(loop.stride);
      if (axis < 0) return false;
      const std::int64_t extent = piece_.box[axis].length();
      const std::int64_t begin = box_[axis].begin;
      axis_ = axis - 1;
      if (loop.count <= extent - begin) {
        box_[axis].end = begin + loop.count;
        return true;
      }
      if (begin != 0 || loop.count % extent != 0) return false;
      box_[axis].end = extent;
      loop.count /= extent;
      loop.stride *= extent;
    }
    return true;
  }

  // As many iterations of the loop as fit, at least one.
  std::int64_t fit_most(PieceIndex::Loop loop) {
    if (loop.count <= 1) return 1;
    const int axis = axis_with(loop.stride);
    if (axis < 0) return 1;
    const std::int64_t extent = piece_.box[axis].length();
    const std::int64_t begin = box_[axis].begin;
    axis_ = axis - 1;
    if (loop.count <= extent - begin) {
      box_[axis].end = begin + loop.count;
      return loop.count;
    }
    box_[axis].end = extent;
    if (begin != 0) return extent - begin;
    return extent * fit_most({loop.count / extent, loop.stride * extent});
  }

  const Box& box() const { return box_; }

 private:
  int axis_with(std::int64_t stride) const {
    for (int axis = axis_; axis >= 0; --axis) {
      if (piece_.box[axis].length() > 1 && piece_.strides_elems[axis] == stride) return axis;
    }
    return -1;
  }

  const ir::Piece& piece_;
  Box box_;
  int axis_;  // the last axis that is still free
};

}  // namespace

PieceIndex::PieceIndex(std::span<const ir::Piece> pieces) : pieces_(pieces.begin(), pieces.end()) {
  std::sort(pieces_.begin(), pieces_.end(), [](const ir::Piece& a, const ir::Piece& b) {
    return std::tie(a.offset_elems, a.tensor, a.box) < std::tie(b.offset_elems, b.tensor, b.box);
  });
  std::int64_t max_end = 0;
  for (const ir::Piece& piece : pieces_) {
    std::int64_t end = piece.offset_elems + 1;
    std::vector<int> axes;
    for (int axis = 0; axis < piece.box.count; ++axis) {
      if (piece.box[axis].length() == 1) continue;
      end += (piece.box[axis].length() - 1) * piece.strides_elems[axis];
      axes.push_back(axis);
    }
    std::stable_sort(axes.begin(), axes.end(),
                     [&](int a, int b) { return piece.strides_elems[a] > piece.strides_elems[b]; });
    max_end = std::max(max_end, end);
    ends_.push_back(end);
    max_ends_.push_back(max_end);
    axes_.push_back(std::move(axes));
  }
}

PieceIndex::Hit PieceIndex::find(std::int64_t address) const {
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), address,
                       [](std::int64_t a, const ir::Piece& p) { return a < p.offset_elems; });
  for (auto i = after - pieces_.begin() - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    if (max_ends_[at] <= address) break;
    if (ends_[at] <= address) continue;
    Hit hit;
    hit.box.count = pieces_[at].box.count;
    for (int axis = 0; axis < hit.box.count; ++axis) hit.box[axis] = {0, 1};
    if (invert(pieces_[at], axes_[at], address - pieces_[at].offset_elems, hit.box)) {
      hit.piece = static_cast<std::int32_t>(i);
      return hit;
    }
  }
  return {};
}

// How many elements from `address`, which no piece covers, are surely uncovered too.
std::int64_t PieceIndex::gap_after(std::int64_t address, std::int64_t most) const {
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), address,
                       [](std::int64_t a, const ir::Piece& p) { return a < p.offset_elems; });
  const auto position = after - pieces_.begin();
  if (position > 0 && max_ends_[static_cast<std::size_t>(position - 1)] > address) return 1;
  if (after == pieces_.end()) return most;
  return std::min(most, after->offset_elems - address);
}

// Iterations of the outermost loop that are one box of one piece; 0 when not even one is.
std::int64_t PieceIndex::match(std::int64_t address, std::span<const Loop> loops,
                               Part& part) const {
  const Hit hit = find(address);
  if (hit.piece < 0) return 0;
  const ir::Piece& piece = pieces_[static_cast<std::size_t>(hit.piece)];
  BoxFit fit(piece, hit.box);
  part.num_elems = 1;
  for (std::size_t level = loops.size(); level-- > 1;) {
    if (!fit.fit_whole(loops[level])) return 0;
    part.num_elems *= loops[level].count;
  }
  const std::int64_t taken = fit.fit_most(loops.front());
  part.num_elems *= taken;
  part.piece = hit.piece;
  part.box = fit.box();
  for (int axis = 0; axis < part.box.count; ++axis) {
    part.box[axis].begin += piece.box[axis].begin;
    part.box[axis].end += piece.box[axis].begin;
  }
  return taken;
}

bool PieceIndex::decode_level(std::int64_t address, std::span<const Loop> loops,
                              std::vector<Part>& parts, Budget& budget) const {
  Loop rest = loops.front();
  std::vector<Loop> nest(loops.begin(), loops.end());
  while (rest.count > 0) {
    if (--budget.parts < 0) return false;
    nest.front() = rest;
    Part part;
    std::int64_t taken = match(address, nest, part);
    if (taken > 0) {
      parts.push_back(part);
    } else if (loops.size() > 1) {
      taken = 1;
      if (!decode_level(address, loops.subspan(1), parts, budget)) return false;
    } else {
      taken = rest.stride == 1 ? gap_after(address, rest.count) : 1;
      if (!parts.empty() && parts.back().piece < 0) {
        parts.back().num_elems += taken;
      } else {
        part.num_elems = taken;
        parts.push_back(part);
      }
    }
    address += taken * rest.stride;
    rest.count -= taken;
  }
  return true;
}

bool PieceIndex::decode(std::int64_t offset, const std::vector<Loop>& loops,
                        std::vector<Part>& parts, Budget& budget) const {
  if (loops.empty()) return true;
  return decode_level(offset, loops, parts, budget);
}

ProgramPieces::ProgramPieces(const ir::Program& program) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> index_of_range;
  for (const ir::Storage& storage : program.storages) {
    const auto [it, is_new] = index_of_range.try_emplace(
        {storage.pieces.first, storage.pieces.count}, static_cast<std::int32_t>(indices_.size()));
    if (is_new) indices_.emplace_back(ir::view(program.pieces, storage.pieces));
    index_of_storage_.push_back(it->second);
  }
}

std::vector<PieceIndex::Loop> loops_of(const ir::Program& program, const ir::Slice& slice,
                                       std::int64_t unit) {
  std::vector<PieceIndex::Loop> loops;
  if (lane_bytes(program, slice) == 0) return loops;
  const auto append = [&](std::int64_t count, std::int64_t stride) {
    if (count == 1) return;
    if (!loops.empty() && loops.back().stride == count * stride) {
      loops.back() = {loops.back().count * count, stride};
    } else {
      loops.push_back({count, stride});
    }
  };
  for (const ir::SliceDim& dim : ir::view(program.slice_dims, slice.dims)) {
    append(dim.count, dim.stride_bytes / unit);
  }
  append(slice.run_bytes / unit, 1);
  if (loops.empty()) loops.push_back({1, 1});
  return loops;
}

bool decode_lane(const ir::Program& program, const ProgramPieces& pieces, const ir::Slice& slice,
                 std::int32_t lane, std::vector<Part>& parts, Budget& budget) {
  const StorageId id(slice.storage.value + lane);
  const std::int64_t unit = size_bytes(storage_of(program, id).dtype);
  return pieces.of(id).decode(slice.offset_bytes / unit, loops_of(program, slice, unit), parts,
                              budget);
}

}  // namespace plan::verify
