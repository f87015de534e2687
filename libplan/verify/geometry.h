// From bytes of a storage back to boxes of tensors: the inverse of what lowering does, written from
// the meaning of ir::Piece and ir::Slice alone.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "libplan/schedule/ir.h"

namespace plan::verify {

// Consecutive elements of a slice: a box of one piece in the box's row-major order, or elements
// that no piece covers.
struct Part {
  std::int32_t piece = -1;     // position in PieceIndex::pieces(); -1: no piece
  std::int64_t num_elems = 0;  // of the box, or of the gap
  Box box;                     // in the coordinates of the piece's tensor
};

// Limits the total number of Parts, so that a hostile slice cannot make the checker run for ever.
struct Budget {
  std::int64_t parts = 0;
  bool exhausted() const { return parts < 0; }
};

// The pieces of one storage, sorted by where they begin.
class PieceIndex {
 public:
  PieceIndex() = default;
  explicit PieceIndex(std::span<const ir::Piece> pieces);

  const std::vector<ir::Piece>& pieces() const { return pieces_; }

  // One loop over elements; outermost first in a list.
  struct Loop {
    std::int64_t count = 1;
    std::int64_t stride = 0;
  };

  // Appends the parts that the loops visit, in order. A nest that addresses a box of a piece in the
  // box's order is one part; any other nest is split, at worst into elements. Returns false when
  // the budget ran out.
  bool decode(std::int64_t offset, const std::vector<Loop>& loops, std::vector<Part>& parts,
              Budget& budget) const;

 private:
  struct Hit {
    std::int32_t piece = -1;
    Box box;  // one element, relative to the piece's box
  };
  struct Nest;

  Hit find(std::int64_t address) const;
  std::int64_t gap_after(std::int64_t address, std::int64_t most) const;
  bool decode_level(std::int64_t address, std::span<const Loop> loops, std::vector<Part>& parts,
                    Budget& budget) const;
  std::int64_t match(std::int64_t address, std::span<const Loop> loops, Part& part) const;

  std::vector<ir::Piece> pieces_;
  std::vector<std::int64_t> ends_;      // one past the last address of each piece
  std::vector<std::int64_t> max_ends_;  // running maximum of ends_
  // Per piece: its axes of more than one element, by falling stride.
  std::vector<std::vector<int>> axes_;
};

// One PieceIndex for each distinct range of pieces of a Program.
class ProgramPieces {
 public:
  explicit ProgramPieces(const ir::Program& program);
  const PieceIndex& of(StorageId storage) const {
    return indices_[static_cast<std::size_t>(
        index_of_storage_[static_cast<std::size_t>(storage.value)])];
  }

 private:
  std::vector<PieceIndex> indices_;
  std::vector<std::int32_t> index_of_storage_;
};

// The parts of one lane of a sound slice. False when the budget ran out.
bool decode_lane(const ir::Program& program, const ProgramPieces& pieces, const ir::Slice& slice,
                 std::int32_t lane, std::vector<Part>& parts, Budget& budget);

// The contiguous runs of one lane, in the slice's order. Calls visit(offset_bytes, num_bytes).
// False when the budget ran out.
template <class Visit>
bool for_each_run(const ir::Program& program, const ir::Slice& slice, Budget& budget, Visit visit);

// The loops of a slice without those of count 1, adjacent ones merged; `unit` divides all numbers.
std::vector<PieceIndex::Loop> loops_of(const ir::Program& program, const ir::Slice& slice,
                                       std::int64_t unit);

template <class Visit>
bool for_each_run(const ir::Program& program, const ir::Slice& slice, Budget& budget, Visit visit) {
  std::vector<PieceIndex::Loop> loops = loops_of(program, slice, 1);
  if (loops.empty()) return true;
  std::int64_t run = 1;
  if (loops.back().stride == 1) {
    run = loops.back().count;
    loops.pop_back();
  }
  std::vector<std::int64_t> index(loops.size(), 0);
  std::int64_t offset = slice.offset_bytes;
  while (true) {
    if (--budget.parts < 0) return false;
    visit(offset, run);
    std::size_t level = loops.size();
    while (level > 0 && index[level - 1] + 1 == loops[level - 1].count) {
      offset -= index[level - 1] * loops[level - 1].stride;
      index[--level] = 0;
    }
    if (level == 0) return true;
    ++index[level - 1];
    offset += loops[level - 1].stride;
  }
}

}  // namespace plan::verify
