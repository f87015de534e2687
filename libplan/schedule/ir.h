// The Schedule: plain data that an executor replays and a checker proves. Self-contained; an
// executor needs nothing else.
//
// Per rank and window, in this order: allocate; `before` ops; sends and receives as one group;
// `after` ops; free. Ops inside one phase have no order among themselves. There is no barrier
// between ranks: a window starts when the windows it depends on are done on its own rank. Windows
// without any entry are implicit and not stored.
//
// All variable-length parts are index ranges into flat arrays of the rank's Program, so that a
// program is readable alone and expansion is a loop over arrays.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libplan/base/box.h"
#include "libplan/base/dtype.h"
#include "libplan/base/ids.h"
#include "libplan/base/memory_kind.h"

namespace plan::ir {

inline constexpr std::string_view kFormat = "libplan-schedule";
inline constexpr std::int32_t kVersion = 1;

// [first, first + count) in one of the Program's arrays.
struct Range {
  std::int32_t first = 0;
  std::int32_t count = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

struct SliceDim {
  std::int64_t count = 1;
  std::int64_t stride_bytes = 0;
  friend bool operator==(const SliceDim&, const SliceDim&) = default;
};

// Bytes of one storage: a contiguous run of run_bytes, repeated over `dims` (outermost first,
// indices into Program::slice_dims). With lanes > 1 the same bytes of storages storage, storage+1,
// ..., storage+lanes-1 follow each other, lane by lane. Order of the bytes: lane, dims outermost
// first, run.
struct Slice {
  StorageId storage;
  std::int32_t lanes = 1;
  std::int64_t offset_bytes = 0;
  std::int64_t run_bytes = 0;
  Range dims;
  friend bool operator==(const Slice&, const Slice&) = default;
};

struct Copy {  // local; both slices have the same number of bytes and do not overlap
  Slice from;
  Slice to;
  friend bool operator==(const Copy&, const Copy&) = default;
};

struct Fill {  // repeats the low pattern_bytes bytes (1, 2, 4 or 8) of `pattern`, little-endian
  Slice to;
  std::uint64_t pattern = 0;
  std::int32_t pattern_bytes = 1;
  friend bool operator==(const Fill&, const Fill&) = default;
};

struct Convert {  // element by element cast, round to nearest even
  Slice from;
  Slice to;
  Dtype from_dtype = Dtype::Float32;
  Dtype to_dtype = Dtype::Float32;
  friend bool operator==(const Convert&, const Convert&) = default;
};

// A message between two ranks in one window: at most one per ordered pair and window. `message` is
// the same on both ends and unique in the plan; the slices' bytes follow each other in order.
struct Send {
  RankId to_rank;
  std::int64_t message = 0;
  Range slices;  // into Program::slices
  friend bool operator==(const Send&, const Send&) = default;
};

struct Receive {
  RankId from_rank;
  std::int64_t message = 0;
  Range slices;
  friend bool operator==(const Receive&, const Receive&) = default;
};

struct LocalOps {
  Range copies;    // into Program::copies
  Range fills;     // into Program::fills
  Range converts;  // into Program::converts
  friend bool operator==(const LocalOps&, const LocalOps&) = default;
};

struct Window {
  std::int32_t number = 0;  // global; the same moment on every rank
  Range depends_on;         // into Program::window_numbers; earlier windows of this rank
  Range allocate;           // into Program::storage_ids
  LocalOps before;
  Range sends;     // into Program::sends; ascending by to_rank
  Range receives;  // into Program::receives; ascending by from_rank
  LocalOps after;
  Range free;  // into Program::storage_ids
  friend bool operator==(const Window&, const Window&) = default;
};

enum class StorageRole : std::uint8_t { Source, Target, Scratch, Opaque };

// Where a Box of a tensor lies in a storage, in elements of the storage's dtype (cf. plan::Shard).
struct Piece {
  TensorId tensor;  // into Schedule::tensors
  Box box;
  std::int64_t offset_elems = 0;
  Dims strides_elems;
  friend bool operator==(const Piece&, const Piece&) = default;
};

// One allocation. A Source exists before the first window, a Target or Scratch from the window that
// allocates it; whatever is never freed lives on. An alias (a Target with alias_of >= 0) takes over
// the bytes of a Source of the same rank, of the same size and pieces, at the moment it is
// allocated; then the source is not freed apart.
struct Storage {
  StorageRole role = StorageRole::Source;
  MemoryKind memory = MemoryKind::Device;
  Dtype dtype = Dtype::UInt8;
  std::int64_t size_bytes = 0;
  std::int64_t alignment = 1;
  std::string binding_key;  // empty for scratch; unique per (rank, role, state)
  StateId state;            // into Schedule::states; invalid for scratch and opaque
  StorageId alias_of;       // invalid: none
  Range pieces;             // into Program::pieces; lanes may share one range
  friend bool operator==(const Storage&, const Storage&) = default;
};

struct Program {
  RankId rank;
  std::vector<Storage> storages;  // id = index
  std::vector<Piece> pieces;
  std::vector<Window> windows;  // ascending by number
  std::vector<std::int32_t> window_numbers;
  std::vector<StorageId> storage_ids;
  std::vector<Copy> copies;
  std::vector<Fill> fills;
  std::vector<Convert> converts;
  std::vector<Send> sends;
  std::vector<Receive> receives;
  std::vector<Slice> slices;
  std::vector<SliceDim> slice_dims;
  friend bool operator==(const Program&, const Program&) = default;
};

struct RankEntry {
  RankId rank;      // = index
  DeviceId worker;  // ascending
  NodeId node;
  bool is_source = false;  // holds source state
  bool is_target = false;  // ends with target state; neither: relay
  // The switch can be rolled back until this window has run; -1: until commit.
  std::int32_t rollback_until_window = -1;
  friend bool operator==(const RankEntry&, const RankEntry&) = default;
};

struct TensorEntry {
  std::string name;
  Dims shape;
  bool padding = false;  // vocabulary padding: moves uncounted
  friend bool operator==(const TensorEntry&, const TensorEntry&) = default;
};

// Digests of the inputs, SHA-256 hex.
struct Digests {
  std::string model;
  std::string source_layout;
  std::string target_layout;
  std::string topology;
  friend bool operator==(const Digests&, const Digests&) = default;
};

struct Schedule {
  std::string request;  // canonical JSON of the inputs, enough to plan again (plan.h)
  Digests digests;
  std::string algorithm;
  std::int32_t window_ops = 256;  // most sends plus receives of one rank in one window
  std::int32_t num_windows = 0;
  std::vector<RankEntry> ranks;
  std::vector<TensorEntry> tensors;
  std::vector<std::string> states;
  std::vector<Program> programs;  // one per rank, or a subset of ranks (a rank's part alone)
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// Elements of `array` in `range`; the range must have been validated.
template <class T>
std::span<const T> view(const std::vector<T>& array, Range range) {
  return std::span<const T>(array).subspan(static_cast<std::size_t>(range.first),
                                           static_cast<std::size_t>(range.count));
}

// Bytes of a slice over all lanes; checked.
std::int64_t num_bytes(const Program& program, const Slice& slice);

// Bytes of a message: of all its slices; checked.
std::int64_t num_bytes(const Program& program, const Send& send);
std::int64_t num_bytes(const Program& program, const Receive& receive);

// "source", "target", "scratch", "opaque".
std::string_view name_of(StorageRole role);
std::optional<StorageRole> role_from_name(std::string_view name);

// "device", "host", "file".
std::string_view memory_name(MemoryKind memory);
std::optional<MemoryKind> memory_from_name(std::string_view name);

// The program of `rank`, or null.
const Program* find_program(const Schedule& schedule, RankId rank);

// The schedule with the program of `rank` alone; Error(BadInput) if it has none.
Schedule part_of_rank(const Schedule& schedule, RankId rank);

}  // namespace plan::ir
