// A Schedule as text for people: one line per storage, piece and op. Used by `show` and in tests.
//
// A slice is written `storage@offset+run`, in bytes; ` 4x/64` repeats it 4 times, every 64 bytes
// (outermost first), and `3..5@0+16` takes the same bytes of storages 3, 4 and 5:
//
//   window 1 after 0
//     allocate 3
//     receive from 2 message 7, 64 bytes: 3@0+16 4x/64
//     after copy 3@0+64 -> 1@128+64
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libplan/schedule/ir.h"

namespace plan {

struct TextOptions {
  std::optional<RankId> rank;  // this rank's program alone; Error(BadInput) if there is none
  std::int64_t max_lines = 0;  // what follows is counted, not shown; 0: all
};

// The schedule must have been validated.
std::string to_text(const ir::Schedule& schedule, const TextOptions& options = {});

}  // namespace plan
