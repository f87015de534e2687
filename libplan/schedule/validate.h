// Structure and bounds of an untrusted plan, before anything is allocated for it.
//
// After validate() returns, every index and range of the schedule may be used unchecked, every
// slice lies inside its storages, both sides of a copy have the same size, and no sum of sizes
// overflows. Not checked here, but by verify/: that the plan does the right thing (data there
// before it is read, sends that meet receives, no wait cycle, every element written once).
#pragma once

#include <cstdint>

#include "libplan/schedule/ir.h"

namespace plan {

// Limits of a plan. They bound what a decoder or executor may have to allocate, far above any real
// job.
inline constexpr std::int64_t kMaxRanks = std::int64_t{1} << 20;
inline constexpr std::int64_t kMaxEntries = (std::int64_t{1} << 31) - 1;  // of any one array
inline constexpr std::int32_t kMaxSliceDims = 8;
inline constexpr std::int32_t kMaxWindowOps = 1 << 20;
inline constexpr std::int64_t kMaxNameBytes = 64 << 10;  // of a name or binding key
inline constexpr std::int64_t kMaxAlignmentBytes = std::int64_t{1} << 30;
// Ranges may share entries of an array (lanes share pieces), but all ranges together refer to at
// most this many times the array's size, so that walking a plan costs time linear in its size.
inline constexpr std::int64_t kMaxSharing = 64;

// Checks, in this order:
// * sizes within the limits above; names are UTF-8; states are unique
// * ranks are numbered 0, 1, 2, ...; workers strictly ascending; rollback windows exist
// * programs strictly ascending by rank
// * storages: known role, memory and dtype; sizes >= 0 with a sum that fits 64 bits; alignment a
//   power of two; source and target storages have a state, others none; (role, state, binding key)
//   unique, no key for scratch; an alias is a target that takes over a source of its size, each
//   source at most once
// * pieces: inside their tensor, not empty, inside their storage
// * windows: strictly ascending, below num_windows; depends_on names earlier windows of the
//   program; at most window_ops messages; storage ids valid
// * slices: 1 or more lanes of one size; every run inside the storage; no byte named twice by zero
//   strides (bytes <= extent)
// * copies: both sides of one size; fills: whole patterns of 1, 2, 4 or 8 bytes; converts: floating
//   dtypes, whole elements, the same number on both sides
// * messages: peers are other ranks, ascending; numbers >= 0, unique among all sends and among all
//   receives
// Throws Error(BadInput) with required and found, and rank, window and op as the place.
void validate(const ir::Schedule& schedule);

}  // namespace plan
