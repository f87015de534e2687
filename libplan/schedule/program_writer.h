// Collects the storages and window entries of one rank and writes them as a Program.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "libplan/base/box.h"
#include "libplan/layout/layout.h"
#include "libplan/schedule/ir.h"

namespace plan {

// A slice with its dimensions, before it has a place in a Program.
struct LooseSlice {
  StorageId storage;
  std::int32_t lanes = 1;
  std::int64_t offset_bytes = 0;
  std::int64_t run_bytes = 0;
  std::vector<ir::SliceDim> dims;

  std::int64_t num_bytes() const;
  bool contiguous() const { return dims.empty() && lanes == 1; }
};

// The bytes of `box`, in the row-major order of the box, in a storage where `shard` lies. `storage`
// is the first of `lanes` neighbouring storages with elements of `elem_bytes`.
LooseSlice slice_of_box(const Shard& shard, const Box& box, StorageId storage, std::int32_t lanes,
                        std::int64_t elem_bytes);

class ProgramWriter {
 public:
  explicit ProgramWriter(RankId rank) { program_.rank = rank; }

  // One storage per lane; returns the id of the first. `alias_of` is the first lane's source
  // storage.
  StorageId add_storage(const Storage& storage, ir::StorageRole role, StorageId alias_of = {});
  StorageId add_scratch(std::int64_t size_bytes, MemoryKind memory);

  void allocate(std::int32_t window, StorageId storage) {
    windows_[window].allocate.push_back(storage);
  }
  void free(std::int32_t window, StorageId storage) { windows_[window].free.push_back(storage); }
  void copy_before(std::int32_t window, const LooseSlice& from, const LooseSlice& to);
  void copy_after(std::int32_t window, const LooseSlice& from, const LooseSlice& to);
  void fill_before(std::int32_t window, const LooseSlice& to, std::uint64_t pattern,
                   std::int32_t pattern_bytes);
  void send(std::int32_t window, RankId to, std::int64_t message,
            const std::vector<LooseSlice>& slices);
  void receive(std::int32_t window, RankId from, std::int64_t message,
               const std::vector<LooseSlice>& slices);

  // Windows ascending; each depends on the one before it.
  ir::Program build() &&;

 private:
  struct WindowParts {
    std::vector<StorageId> allocate, free;
    std::vector<ir::Copy> copies_before, copies_after;
    std::vector<ir::Fill> fills_before;
    std::vector<ir::Send> sends;
    std::vector<ir::Receive> receives;
  };

  ir::Slice place(const LooseSlice& slice);
  ir::Range place(const std::vector<LooseSlice>& slices);

  ir::Program program_;
  std::map<std::int32_t, WindowParts> windows_;
};

}  // namespace plan
