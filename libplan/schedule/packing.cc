#include "libplan/schedule/packing.h"

#include "libplan/base/checked.h"

namespace plan {
namespace {

// Lays the slices one after the other into scratch that lives for the window, and calls
// use(slice, place in scratch) for each.
template <class Use>
LooseSlice through_scratch(ProgramWriter& writer, std::int32_t window,
                           const std::vector<LooseSlice>& slices, Use use) {
  if (slices.size() == 1 && slices.front().contiguous()) return slices.front();
  std::int64_t bytes = 0;
  for (const LooseSlice& slice : slices) bytes = checked_add(bytes, slice.num_bytes());
  const StorageId scratch = writer.add_scratch(bytes, MemoryKind::Device);
  writer.allocate(window, scratch);
  writer.free(window, scratch);
  LooseSlice place{scratch, 1, 0, 0, {}};
  for (const LooseSlice& slice : slices) {
    place.run_bytes = slice.num_bytes();
    use(slice, place);
    place.offset_bytes += place.run_bytes;
  }
  return {scratch, 1, 0, bytes, {}};
}

}  // namespace

LooseSlice packed(ProgramWriter& writer, std::int32_t window,
                  const std::vector<LooseSlice>& slices) {
  return through_scratch(writer, window, slices,
                         [&](const LooseSlice& slice, const LooseSlice& place) {
                           writer.copy_before(window, slice, place);
                         });
}

LooseSlice unpacked(ProgramWriter& writer, std::int32_t window,
                    const std::vector<LooseSlice>& slices) {
  return through_scratch(writer, window, slices,
                         [&](const LooseSlice& slice, const LooseSlice& place) {
                           writer.copy_after(window, place, slice);
                         });
}

}  // namespace plan
