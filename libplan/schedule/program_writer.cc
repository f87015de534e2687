#include "libplan/schedule/program_writer.h"

#include <algorithm>

#include "libplan/base/checked.h"
#include "libplan/base/error.h"

namespace plan {
namespace {

// Storages hold their elements naturally aligned; scratch and device buffers follow the alignment
// that vector copies on GPUs want.
constexpr std::int64_t kAlignmentBytes = 256;

template <class T>
ir::Range append(std::vector<T>& array, const std::vector<T>& items) {
  const ir::Range range{checked_int32(static_cast<std::int64_t>(array.size())),
                        checked_int32(static_cast<std::int64_t>(items.size()))};
  array.insert(array.end(), items.begin(), items.end());
  return range;
}

}  // namespace

std::int64_t LooseSlice::num_bytes() const {
  std::int64_t bytes = checked_mul(run_bytes, lanes);
  for (const ir::SliceDim& dim : dims) bytes = checked_mul(bytes, dim.count);
  return bytes;
}

LooseSlice slice_of_box(const Shard& shard, const Box& box, StorageId storage, std::int32_t lanes,
                        std::int64_t elem_bytes) {
  PLAN_CHECK(shard.box.contains(box) && !box.empty());
  LooseSlice slice{storage, lanes, shard.offset_elems, 1, {}};
  for (int axis = 0; axis < box.count; ++axis) {
    slice.offset_bytes = checked_add(
        slice.offset_bytes,
        checked_mul(box[axis].begin - shard.box[axis].begin, shard.strides_elems[axis]));
  }
  // From the innermost axis outwards: an axis that continues the run or the dimension inside it
  // joins.
  std::vector<ir::SliceDim> inner_first;  // strides in elements until the end
  for (int axis = box.count - 1; axis >= 0; --axis) {
    const std::int64_t count = box[axis].length();
    const std::int64_t stride = shard.strides_elems[axis];
    if (count == 1) continue;
    if (inner_first.empty() && stride == slice.run_bytes) {
      slice.run_bytes = checked_mul(slice.run_bytes, count);
    } else if (!inner_first.empty() &&
               stride == checked_mul(inner_first.back().count, inner_first.back().stride_bytes)) {
      inner_first.back().count = checked_mul(inner_first.back().count, count);
    } else {
      inner_first.push_back({count, stride});
    }
  }
  slice.offset_bytes = checked_mul(slice.offset_bytes, elem_bytes);
  slice.run_bytes = checked_mul(slice.run_bytes, elem_bytes);
  for (auto dim = inner_first.rbegin(); dim != inner_first.rend(); ++dim) {
    slice.dims.push_back({dim->count, checked_mul(dim->stride_bytes, elem_bytes)});
  }
  return slice;
}

StorageId ProgramWriter::add_storage(const Storage& storage, ir::StorageRole role,
                                     StorageId alias_of) {
  const StorageId first(checked_int32(static_cast<std::int64_t>(program_.storages.size())));
  ir::Range pieces;
  if (alias_of.valid()) {
    pieces = program_.storages[static_cast<std::size_t>(alias_of.value)].pieces;
  } else {
    std::vector<ir::Piece> shards;
    for (const Shard& shard : storage.shards) {
      shards.push_back({shard.tensor, shard.box, shard.offset_elems, shard.strides_elems});
    }
    pieces = append(program_.pieces, shards);
  }
  for (std::size_t lane = 0; lane < storage.lanes.size(); ++lane) {
    ir::Storage entry;
    entry.role = role;
    entry.memory = storage.memory;
    entry.dtype = storage.lanes[lane].dtype;
    entry.size_bytes = checked_mul(storage.size_elems, size_bytes(entry.dtype));
    entry.alignment = kAlignmentBytes;
    entry.binding_key = storage.key;
    entry.state = storage.lanes[lane].state;
    if (alias_of.valid())
      entry.alias_of = StorageId(alias_of.value + static_cast<std::int32_t>(lane));
    entry.pieces = pieces;
    program_.storages.push_back(std::move(entry));
  }
  return first;
}

StorageId ProgramWriter::add_scratch(std::int64_t size_bytes, MemoryKind memory) {
  ir::Storage entry;
  entry.role = ir::StorageRole::Scratch;
  entry.memory = memory;
  entry.size_bytes = size_bytes;
  entry.alignment = kAlignmentBytes;
  program_.storages.push_back(std::move(entry));
  return StorageId(checked_int32(static_cast<std::int64_t>(program_.storages.size()) - 1));
}

ir::Slice ProgramWriter::place(const LooseSlice& slice) {
  return {slice.storage, slice.lanes, slice.offset_bytes, slice.run_bytes,
          append(program_.slice_dims, slice.dims)};
}

ir::Range ProgramWriter::place(const std::vector<LooseSlice>& slices) {
  std::vector<ir::Slice> placed;
  placed.reserve(slices.size());
  for (const LooseSlice& slice : slices) placed.push_back(place(slice));
  return append(program_.slices, placed);
}

void ProgramWriter::copy_before(std::int32_t window, const LooseSlice& from, const LooseSlice& to) {
  PLAN_CHECK(from.num_bytes() == to.num_bytes());
  windows_[window].copies_before.push_back({place(from), place(to)});
}

void ProgramWriter::copy_after(std::int32_t window, const LooseSlice& from, const LooseSlice& to) {
  PLAN_CHECK(from.num_bytes() == to.num_bytes());
  windows_[window].copies_after.push_back({place(from), place(to)});
}

void ProgramWriter::fill_before(std::int32_t window, const LooseSlice& to, std::uint64_t pattern,
                                std::int32_t pattern_bytes) {
  windows_[window].fills_before.push_back({place(to), pattern, pattern_bytes});
}

void ProgramWriter::send(std::int32_t window, RankId to, std::int64_t message,
                         const std::vector<LooseSlice>& slices) {
  windows_[window].sends.push_back({to, message, place(slices)});
}

void ProgramWriter::receive(std::int32_t window, RankId from, std::int64_t message,
                            const std::vector<LooseSlice>& slices) {
  windows_[window].receives.push_back({from, message, place(slices)});
}

ir::Program ProgramWriter::build() && {
  std::int32_t previous = -1;
  for (auto& [number, parts] : windows_) {
    std::sort(parts.sends.begin(), parts.sends.end(),
              [](const ir::Send& a, const ir::Send& b) { return a.to_rank < b.to_rank; });
    std::sort(parts.receives.begin(), parts.receives.end(),
              [](const ir::Receive& a, const ir::Receive& b) { return a.from_rank < b.from_rank; });
    std::sort(parts.allocate.begin(), parts.allocate.end());
    std::sort(parts.free.begin(), parts.free.end());
    ir::Window window;
    window.number = number;
    if (previous >= 0) window.depends_on = append(program_.window_numbers, {previous});
    window.allocate = append(program_.storage_ids, parts.allocate);
    window.before.copies = append(program_.copies, parts.copies_before);
    window.before.fills = append(program_.fills, parts.fills_before);
    window.sends = append(program_.sends, parts.sends);
    window.receives = append(program_.receives, parts.receives);
    window.after.copies = append(program_.copies, parts.copies_after);
    window.free = append(program_.storage_ids, parts.free);
    program_.windows.push_back(window);
    previous = number;
  }
  return std::move(program_);
}

}  // namespace plan
