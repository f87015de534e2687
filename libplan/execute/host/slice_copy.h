// Moves bytes between slice lists: copy, fill and cast, each in one pass and without a temporary.
//
// Lists may be strided in any way and differ in their runs; only their sizes must agree. Nothing is
// allocated or locked here, and distinct byte ranges of one pair of lists may be copied by several
// threads at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libplan/base/box.h"
#include "libplan/base/dtype.h"
#include "libplan/execute/host/slice_list.h"

namespace plan {

// Copies the bytes of `part` (positions in both lists) of `from` to `to`; the lists do not overlap
// in memory. Error(Executor) if the lists differ in
// size or the part leaves them.
void copy_slices(const SliceList& from, const SliceList& to, Interval part);
void copy_slices(const SliceList& from, const SliceList& to);  // all of it

// Packs the list into from.num_bytes() bytes at `packed`, and back.
void gather_slices(const SliceList& from, std::byte* packed);
void scatter_slices(const std::byte* packed, const SliceList& to);

// Repeats the low pattern_bytes (1, 2, 4 or 8) of `pattern`, little-endian, over the bytes of `to`
// in their order; the last repetition may be cut. Error(Executor) on any other pattern_bytes.
void fill_slices(const SliceList& to, std::uint64_t pattern, int pattern_bytes);

// Casts element by element as convert_elements (element_cast.h) does. Error(Executor) if the lists
// differ in element count or a run does not hold whole elements, Error(Unsupported) if there is no
// such cast.
void convert_slices(const SliceList& from, Dtype from_dtype, const SliceList& to, Dtype to_dtype);

}  // namespace plan
