#include "tests/verify/builder.h"

namespace plan::verify::testing {
namespace {

template <class T>
std::int32_t count_of(const std::vector<T>& array) {
  return static_cast<std::int32_t>(array.size());
}

ir::Slice flatten(const SliceSpec& spec, ir::Program& program) {
  ir::Slice slice;
  slice.storage = StorageId(spec.storage);
  slice.lanes = spec.lanes;
  slice.offset_bytes = spec.offset;
  slice.run_bytes = spec.run;
  slice.dims = {count_of(program.slice_dims), count_of(spec.dims)};
  program.slice_dims.insert(program.slice_dims.end(), spec.dims.begin(), spec.dims.end());
  return slice;
}

ir::LocalOps flatten(const LocalSpec& spec, ir::Program& program) {
  ir::LocalOps ops;
  ops.copies = {count_of(program.copies), count_of(spec.copies)};
  for (const CopySpec& copy : spec.copies) {
    program.copies.push_back({flatten(copy.from, program), flatten(copy.to, program)});
  }
  ops.fills = {count_of(program.fills), count_of(spec.fills)};
  for (const FillSpec& fill : spec.fills) {
    program.fills.push_back({flatten(fill.to, program), 0, fill.pattern_bytes});
  }
  ops.converts = {count_of(program.converts), count_of(spec.converts)};
  for (const ConvertSpec& convert : spec.converts) {
    program.converts.push_back({flatten(convert.from, program), flatten(convert.to, program),
                                convert.from_dtype, convert.to_dtype});
  }
  return ops;
}

ir::Range flatten(const std::vector<SliceSpec>& specs, ir::Program& program) {
  std::vector<ir::Slice> slices;
  for (const SliceSpec& spec : specs) slices.push_back(flatten(spec, program));
  const ir::Range range{count_of(program.slices), count_of(slices)};
  program.slices.insert(program.slices.end(), slices.begin(), slices.end());
  return range;
}

ir::Range flatten_ids(const std::vector<std::int32_t>& ids, ir::Program& program) {
  const ir::Range range{count_of(program.storage_ids), count_of(ids)};
  for (const std::int32_t id : ids) program.storage_ids.emplace_back(id);
  return range;
}

ir::Window flatten(const WindowSpec& spec, ir::Program& program) {
  ir::Window window;
  window.number = spec.number;
  window.depends_on = {count_of(program.window_numbers), count_of(spec.depends_on)};
  program.window_numbers.insert(program.window_numbers.end(), spec.depends_on.begin(),
                                spec.depends_on.end());
  window.allocate = flatten_ids(spec.allocate, program);
  window.before = flatten(spec.before, program);
  window.sends = {count_of(program.sends), count_of(spec.sends)};
  for (const MessageSpec& send : spec.sends) {
    program.sends.push_back({RankId(send.peer), send.message, flatten(send.slices, program)});
  }
  window.receives = {count_of(program.receives), count_of(spec.receives)};
  for (const MessageSpec& receive : spec.receives) {
    program.receives.push_back(
        {RankId(receive.peer), receive.message, flatten(receive.slices, program)});
  }
  window.after = flatten(spec.after, program);
  window.free = flatten_ids(spec.free, program);
  return window;
}

void declare_side(const Layout& layout, std::int32_t worker, ir::StorageRole role,
                  ProgramSpec& program) {
  for (const DeviceShards& device : layout.devices) {
    if (device.device != DeviceId(worker)) continue;
    for (const Storage& storage : device.storages) {
      for (const Lane& lane : storage.lanes) {
        StorageSpec spec;
        spec.storage.role = role;
        spec.storage.memory = storage.memory;
        spec.storage.dtype = lane.dtype;
        spec.storage.size_bytes = storage.size_elems * size_bytes(lane.dtype);
        spec.storage.binding_key = storage.key;
        spec.storage.state = lane.state;
        for (const Shard& shard : storage.shards) {
          spec.pieces.push_back({shard.tensor, shard.box, shard.offset_elems, shard.strides_elems});
        }
        program.storages.push_back(spec);
      }
    }
  }
}

bool holds(const Layout& layout, std::int32_t worker) {
  for (const DeviceShards& device : layout.devices) {
    if (device.device == DeviceId(worker)) return !device.storages.empty();
  }
  return false;
}

}  // namespace

ir::Schedule flatten(const Case& of) {
  ir::Schedule schedule = of.frame;
  for (const ProgramSpec& spec : of.programs) {
    ir::Program program;
    program.rank = RankId(spec.rank);
    for (const StorageSpec& storage : spec.storages) {
      program.storages.push_back(storage.storage);
      program.storages.back().pieces = {count_of(program.pieces), count_of(storage.pieces)};
      program.pieces.insert(program.pieces.end(), storage.pieces.begin(), storage.pieces.end());
    }
    for (const WindowSpec& window : spec.windows) {
      program.windows.push_back(flatten(window, program));
    }
    schedule.programs.push_back(std::move(program));
  }
  return schedule;
}

Case declare(Layout source, Layout target, std::int32_t num_ranks, std::int32_t num_windows) {
  Case result;
  result.frame.num_windows = num_windows;
  result.frame.digests = {"model", "source", "target", "topology"};
  for (const LayoutTensor& tensor : source.tensors) {
    result.frame.tensors.push_back({tensor.name, tensor.shape, tensor.padding});
  }
  for (const StateKind& state : source.states) result.frame.states.push_back(state.name);
  for (std::int32_t rank = 0; rank < num_ranks; ++rank) {
    ir::RankEntry entry;
    entry.rank = RankId(rank);
    entry.worker = DeviceId(rank);
    entry.node = NodeId(0);
    entry.is_source = holds(source, rank);
    entry.is_target = holds(target, rank);
    result.frame.ranks.push_back(entry);
    ProgramSpec program;
    program.rank = rank;
    declare_side(source, rank, ir::StorageRole::Source, program);
    declare_side(target, rank, ir::StorageRole::Target, program);
    result.programs.push_back(std::move(program));
  }
  result.source = std::move(source);
  result.target = std::move(target);
  return result;
}

std::int32_t add_scratch(ProgramSpec& program, std::int64_t size) {
  StorageSpec scratch;
  scratch.storage.role = ir::StorageRole::Scratch;
  scratch.storage.size_bytes = size;
  program.storages.push_back(scratch);
  return count_of(program.storages) - 1;
}

Shard contiguous_shard(std::int32_t tensor, const Box& box, std::int64_t offset_elems) {
  return {TensorId(tensor), box, offset_elems, contiguous_strides(box.extents())};
}

namespace {

enum : std::int32_t { kW, kT, kB, kV, kPadding };  // tensors

const std::vector<Lane> kThree = {
    {StateId(0), Dtype::Float32}, {StateId(1), Dtype::Float32}, {StateId(2), Dtype::Float32}};
const std::vector<Lane> kOne = {{StateId(0), Dtype::Float32}};
const std::vector<Lane> kParam = {{StateId(3), Dtype::BFloat16}};

Layout empty_layout(std::int64_t padding_rows) {
  Layout layout;
  layout.tensors = {{"w", {4, 4}},
                    {"t", {4, 4}},
                    {"b", {4}},
                    {"v", {3, 2}},
                    {"v.padding", {padding_rows, 2}, -1, true}};
  layout.states = {{"main_param", Dtype::Float32},
                   {"exp_avg", Dtype::Float32},
                   {"exp_avg_sq", Dtype::Float32},
                   {"param", {}, StateFollows::Param}};
  return layout;
}

Layout good_source() {
  Layout layout = empty_layout(1);
  layout.devices = {
      {DeviceId(0),
       {{"w", kThree, 8, MemoryKind::Device, {contiguous_shard(kW, {{0, 4}, {0, 2}}, 0)}},
        {"t", kOne, 16, MemoryKind::Device, {contiguous_shard(kT, {{0, 4}, {0, 4}}, 0)}},
        {"b", kOne, 4, MemoryKind::Device, {contiguous_shard(kB, {{0, 4}}, 0)}}}},
      {DeviceId(1),
       {{"w", kThree, 8, MemoryKind::Device, {contiguous_shard(kW, {{0, 4}, {2, 4}}, 0)}},
        {"v",
         kOne,
         8,
         MemoryKind::Device,
         {contiguous_shard(kV, {{0, 3}, {0, 2}}, 0),
          contiguous_shard(kPadding, {{0, 1}, {0, 2}}, 6)}}}}};
  return layout;
}

Layout good_target() {
  Layout layout = empty_layout(2);
  layout.devices = {
      {DeviceId(0),
       {{"w", kThree, 8, MemoryKind::Device, {contiguous_shard(kW, {{0, 2}, {0, 4}}, 0)}},
        {"b", kOne, 4, MemoryKind::Device, {contiguous_shard(kB, {{0, 4}}, 0)}}}},
      {DeviceId(1),
       {{"t", kOne, 8, MemoryKind::Device, {contiguous_shard(kT, {{0, 4}, {1, 3}}, 0)}}}},
      {DeviceId(2),
       {{"w", kThree, 8, MemoryKind::Device, {contiguous_shard(kW, {{2, 4}, {0, 4}}, 0)}},
        {"v",
         kOne,
         12,
         MemoryKind::Device,  // two elements of alignment at the end
         {contiguous_shard(kV, {{0, 3}, {0, 2}}, 0),
          contiguous_shard(kPadding, {{0, 2}, {0, 2}}, 6)}},
        {"w16", kParam, 8, MemoryKind::Device, {contiguous_shard(kW, {{2, 4}, {0, 4}}, 0)}}}}};
  return layout;
}

}  // namespace

// w (three lanes) goes from columns on ranks 0 and 1 to rows on ranks 0 and 2. Rank 0's quarter for
// rank 2 is relayed by rank 1 through scratch (messages 3 and 4); rank 1's own quarter is packed
// into scratch before it is sent, and unpacked (message 1, window 0). Two columns of t go from rank
// 0 to rank 1 by a strided send (message 2). b stays in place on rank 0: an alias. v goes from rank
// 1 to rank 2 with one row of padding (message 5); the second row is filled. Rank 2's 16-bit w is
// cast from its new main_param.
Case good_case() {
  Case result = declare(good_source(), good_target(), 3, 4);
  ProgramSpec& rank0 = result.programs[0];  // w 0-2, t 3, b 4; w 5-7, b 8
  ProgramSpec& rank1 = result.programs[1];  // w 0-2, v 3; t 4
  ProgramSpec& rank2 = result.programs[2];  // w 0-2, v 3, w16 4
  rank0.storages[8].storage.alias_of = StorageId(4);
  const std::int32_t relayed = add_scratch(rank1, 48);   // 5
  const std::int32_t packed = add_scratch(rank1, 48);    // 6
  const std::int32_t unpacked = add_scratch(rank2, 96);  // 5
  const std::vector<ir::SliceDim> rows = {{2, 16}};      // two rows of four 4-byte elements

  rank0.windows = {{0,
                    {},
                    {5, 6, 7, 8},
                    {{{{0, 0, 16, {}, 3}, {5, 0, 8, rows, 3}}}, {}, {}},
                    {{1, 3, {{0, 16, 16, {}, 3}}}},
                    {{1, 6, {{5, 8, 8, rows, 3}}}},
                    {},
                    {}},
                   {2, {0}, {}, {}, {{1, 2, {{3, 4, 8, {{4, 16}}}}}}, {}, {}, {}}};
  rank1.windows = {{0,
                    {},
                    {relayed, packed},
                    {{{{0, 16, 16, {}, 3}, {packed, 0, 48}}}, {}, {}},
                    {{0, 6, {{0, 0, 16, {}, 3}}}, {2, 1, {{packed, 0, 48}}}},
                    {{0, 3, {{relayed, 0, 48}}}},
                    {},
                    {packed}},
                   {1, {0}, {4}, {}, {{2, 4, {{relayed, 0, 48}, {3, 0, 32}}}}, {}, {}, {relayed}},
                   {2, {}, {}, {}, {}, {{0, 2, {{4, 0, 32}}}}, {}, {}}};
  const auto unpack = [&](std::int64_t from, std::int64_t column) {
    return CopySpec{{unpacked, from, 48}, {0, column * 4, 8, rows, 3}};
  };
  rank2.windows = {
      {0, {}, {unpacked, 0, 1, 2}, {}, {}, {{1, 1, {{unpacked, 0, 48}}}}, {{unpack(0, 2)}}, {}},
      {1,
       {0},
       {3},
       {},
       {},
       {{1, 4, {{unpacked, 48, 48}, {3, 0, 32}}}},
       {{unpack(48, 0)}, {{{3, 32, 8}, 4}}, {}},
       {unpacked}},
      {3, {}, {4}, {{}, {}, {{{0, 0, 32}, {4, 0, 16}}}}, {}, {}, {}, {}}};
  return result;
}

}  // namespace plan::verify::testing
