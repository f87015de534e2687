// Schedules by hand: windows and ops as nested lists, flattened into the IR.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libplan/layout/layout.h"
#include "libplan/schedule/ir.h"

namespace plan::verify::testing {

struct SliceSpec {
  std::int32_t storage = 0;
  std::int64_t offset = 0;  // bytes, as all numbers here
  std::int64_t run = 0;
  std::vector<ir::SliceDim> dims;
  std::int32_t lanes = 1;
};

struct CopySpec {
  SliceSpec from, to;
};
struct FillSpec {
  SliceSpec to;
  std::int32_t pattern_bytes = 4;
};
struct ConvertSpec {
  SliceSpec from, to;
  Dtype from_dtype = Dtype::Float32;
  Dtype to_dtype = Dtype::BFloat16;
};
struct MessageSpec {
  std::int32_t peer = 0;
  std::int64_t message = 0;
  std::vector<SliceSpec> slices;
};
struct LocalSpec {
  std::vector<CopySpec> copies;
  std::vector<FillSpec> fills;
  std::vector<ConvertSpec> converts;
};
struct WindowSpec {
  std::int32_t number = 0;
  std::vector<std::int32_t> depends_on;
  std::vector<std::int32_t> allocate;
  LocalSpec before;
  std::vector<MessageSpec> sends, receives;
  LocalSpec after;
  std::vector<std::int32_t> free;
};
struct StorageSpec {
  ir::Storage storage;  // without pieces
  std::vector<ir::Piece> pieces;
};
struct ProgramSpec {
  std::int32_t rank = 0;
  std::vector<StorageSpec> storages;
  std::vector<WindowSpec> windows;
};

struct Case {
  Layout source, target;
  ir::Schedule frame;  // everything but the programs
  std::vector<ProgramSpec> programs;
};

ir::Schedule flatten(const Case& of);

// Declares on every rank the storages of its worker: those of the source layout, lane by lane, then
// those of the target. Ranks are the workers 0..n-1.
Case declare(Layout source, Layout target, std::int32_t num_ranks, std::int32_t num_windows);

// Adds a scratch storage; returns its id.
std::int32_t add_scratch(ProgramSpec& program, std::int64_t size);

Shard contiguous_shard(std::int32_t tensor, const Box& box, std::int64_t offset_elems);

// Three ranks; see the definition for what moves where.
Case good_case();

}  // namespace plan::verify::testing
