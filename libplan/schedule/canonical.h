// The canonical arrangement of a Program's flat arrays, and the digest of a Schedule's content.
//
// Two programs may say the same with their arrays arranged differently. The canonical arrangement
// is unique: entries stand in the order in which a walk over the program meets them, nothing is
// unused, only pieces are shared, and an empty Range is {0, 0}. The walk:
// * storages ascending: pieces. A list equal to one met before is not stored again.
// * windows ascending, each: depends_on; allocate; before copies, fills, converts; sends; receives;
//   after copies, fills, converts; free
// * a copy or convert: dims of `from`, then of `to`; a fill: dims of `to`; a message: each slice
//   followed by its dims
// Both decoders return canonical programs, both encoders write them: for a canonical schedule x,
// decode(encode(x)) == x.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "libplan/base/digest.h"
#include "libplan/schedule/ir.h"

namespace plan {

// The ranges must be valid (validate.h). O(n log n) in pieces, linear in all else.
ir::Program canonical(const ir::Program& program);
void canonicalize(ir::Schedule& schedule);

// True if canonical(program) == program, without building it. The ranges must be valid.
bool is_canonical(const ir::Program& program);

// SHA-256 over all that the schedule says, in the canonical order whatever the arrangement; 64 hex
// digits. The ranges must be valid. It is a hash of the head (all but the programs) and of the
// digest of each program, so that a rank that holds its own program and the digests of the others
// can check the whole.
std::string digest(const ir::Schedule& schedule);
Sha256Digest program_digest(const ir::Program& program);

// Order of piece lists by content; the ranges are those of one array.
struct PiecesLess {
  const std::vector<ir::Piece>* pieces;
  bool operator()(ir::Range a, ir::Range b) const;
};

struct ProgramDigest {
  RankId rank;
  Sha256Digest digest{};
};
// `head` is used without its programs.
std::string digest_from_parts(const ir::Schedule& head, std::span<const ProgramDigest> programs);

// Appends to flat arrays in canonical order; the way every canonical program is built.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(ir::Program& program);

  // Equal lists get one range.
  ir::Range add_pieces(std::span<const ir::Piece> pieces);

  // The entries that were appended to `array` since it had `first` entries; Error(Unsupported)
  // beyond 2^31-1 entries.
  template <class T>
  static ir::Range since(const std::vector<T>& array, std::size_t first) {
    return range(first, array.size());
  }

 private:
  static ir::Range range(std::size_t first, std::size_t end);

  ir::Program& program_;
  std::set<ir::Range, PiecesLess> piece_lists_;
};

}  // namespace plan
