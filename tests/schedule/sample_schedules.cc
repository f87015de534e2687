#include "tests/schedule/sample_schedules.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "libplan/schedule/canonical.h"

namespace plan {
namespace {

using ir::Range;

// Appends and names what was appended.
template <class T>
Range put(std::vector<T>& array, const std::vector<T>& entries) {
  const std::size_t first = array.size();
  array.insert(array.end(), entries.begin(), entries.end());
  return ProgramBuilder::since(array, first);
}

ir::Slice slice(ir::Program& program, std::int32_t storage, std::int32_t lanes, std::int64_t offset,
                std::int64_t run, const std::vector<ir::SliceDim>& dims = {}) {
  return {StorageId(storage), lanes, offset, run, put(program.slice_dims, dims)};
}

ir::Storage storage(ir::StorageRole role, Dtype dtype, std::int64_t size, std::string key,
                    std::int32_t state, Range pieces = {}) {
  ir::Storage storage;
  storage.role = role;
  storage.dtype = dtype;
  storage.size_bytes = size;
  storage.alignment = 256;
  storage.binding_key = std::move(key);
  storage.state = StateId(state);
  storage.pieces = pieces;
  return storage;
}

ir::Program source_program() {
  ir::Program program;
  program.rank = RankId(0);
  const Range whole = put(program.pieces, {{TensorId(0), Box{{0, 4}, {0, 4}}, 0, Dims{4, 1}}});
  const Range parts = put(program.pieces, {{TensorId(0), Box{{0, 2}, {0, 4}}, 4, Dims{4, 1}},
                                           {TensorId(1), Box{{1, 2}}, 0, Dims{1}}});
  const Range scalar = put(program.pieces, {{TensorId(2), Box{}, 1, Dims{}}});
  using Role = ir::StorageRole;
  program.storages = {
      storage(Role::Source, Dtype::BFloat16, 32, "decoder.w", 0, whole),
      storage(Role::Source, Dtype::Float32, 64, "decoder.w \"quoted\" \xC3\xA9\n", 1, whole),
      storage(Role::Source, Dtype::Float32, 64, "decoder.w", 2, whole),
      storage(Role::Target, Dtype::BFloat16, 32, "decoder.w", 0, whole),
      storage(Role::Target, Dtype::Float32, 64, "decoder.w", 1, parts),
      storage(Role::Target, Dtype::Float32, 64, "decoder.w", 2, parts),
      storage(Role::Scratch, Dtype::UInt8, 96, "", -1),
      storage(Role::Opaque, Dtype::Int64, 16, "rng", -1),
      storage(Role::Target, Dtype::Float64, 16, "step", 0, scalar),
  };
  program.storages[3].alias_of = StorageId(0);
  program.storages[6].memory = MemoryKind::Host;
  program.storages[7].memory = MemoryKind::File;

  ir::Window first;
  first.number = 0;
  first.allocate = put(program.storage_ids, {StorageId(4), StorageId(5), StorageId(6)});
  const ir::Copy lanes{slice(program, 1, 2, 0, 8, {{2, 32}, {2, 16}}),
                       slice(program, 4, 2, 32, 32)};
  const ir::Copy plain{slice(program, 1, 1, 0, 16), slice(program, 6, 1, 80, 16)};
  first.before.copies = put(program.copies, {lanes, plain});
  first.before.fills =
      put(program.fills, {{slice(program, 4, 2, 0, 4, {{4, 8}}), 0xFFFFFFFFFFFFFFFFU, 4}});
  program.slices = {slice(program, 1, 2, 0, 16), slice(program, 6, 1, 80, 16)};
  first.sends = put(program.sends, {{RankId(1), 5, {0, 2}}});
  program.windows.push_back(first);

  ir::Window last;
  last.number = 3;
  last.depends_on = put(program.window_numbers, {0});
  last.allocate = put(program.storage_ids, {StorageId(3), StorageId(8)});
  last.before.converts = put(
      program.converts, {{slice(program, 1, 1, 0, 64), slice(program, 3, 1, 0, 2, {{4, 8}, {4, 2}}),
                          Dtype::Float32, Dtype::BFloat16}});
  program.slices.push_back(slice(program, 6, 1, 0, 16));
  last.receives = put(program.receives, {{RankId(2), 7, {2, 1}}});
  last.after.copies =
      put(program.copies, {{slice(program, 6, 1, 0, 8, {{2, 8}}), slice(program, 8, 1, 0, 16)}});
  last.after.fills = put(program.fills, {{slice(program, 8, 1, 0, 8), 0, 8}});
  last.after.converts =
      put(program.converts, {{slice(program, 3, 1, 0, 8), slice(program, 6, 1, 32, 32),
                              Dtype::BFloat16, Dtype::Float64}});
  last.free = put(program.storage_ids, {StorageId(1), StorageId(2), StorageId(6)});
  program.windows.push_back(last);
  return program;
}

ir::Program target_program() {
  ir::Program program;
  program.rank = RankId(1);
  program.storages = {storage(ir::StorageRole::Target, Dtype::Float32, 16, "w", 1),
                      storage(ir::StorageRole::Target, Dtype::Float32, 16, "w", 2),
                      storage(ir::StorageRole::Target, Dtype::Float32, 32, "other", 2)};
  ir::Window window;
  window.number = 0;
  window.allocate = put(program.storage_ids, {StorageId(0), StorageId(1), StorageId(2)});
  program.slices = {slice(program, 0, 2, 0, 16), slice(program, 2, 1, 0, 16)};
  window.receives = put(program.receives, {{RankId(0), 5, {0, 2}}});
  program.windows.push_back(window);
  return program;
}

ir::Program relay_program() {
  ir::Program program;
  program.rank = RankId(2);
  program.storages = {storage(ir::StorageRole::Scratch, Dtype::Bool, 16, "", -1)};
  ir::Window window;
  window.number = 3;
  window.allocate = put(program.storage_ids, {StorageId(0)});
  program.slices = {slice(program, 0, 1, 0, 16)};
  window.sends = put(program.sends, {{RankId(0), 7, {0, 1}}});
  window.free = put(program.storage_ids, {StorageId(0)});
  program.windows.push_back(window);
  return program;
}

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  std::int64_t below(std::int64_t bound) {  // engine_ alone: the same numbers on every platform
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(bound));
  }

 private:
  std::mt19937 engine_;
};

constexpr std::int64_t kRandomStorageBytes = 256;

ir::Slice random_slice(Random& random, ir::Program& program, std::int64_t bytes) {
  const auto lanes = static_cast<std::int32_t>(1 + random.below(2));
  const std::int64_t rows = std::int64_t{1} << random.below(3);
  const std::int64_t run = bytes / lanes / rows;
  const std::int64_t stride = run + random.below(8);
  const std::int64_t extent = (rows - 1) * stride + run;
  std::vector<ir::SliceDim> dims;
  if (rows > 1 || random.below(4) == 0) dims.push_back({rows, stride});
  const auto first = static_cast<std::int32_t>(
      random.below(static_cast<std::int64_t>(program.storages.size()) - 1));
  return slice(program, first, lanes, random.below(kRandomStorageBytes - extent + 1), run, dims);
}

ir::LocalOps random_ops(Random& random, ir::Program& program) {
  ir::LocalOps ops;
  std::vector<ir::Copy> copies;
  for (std::int64_t i = random.below(3); i > 0; --i) {
    const std::int64_t bytes = 8 << random.below(4);
    ir::Copy copy;
    copy.from = random_slice(random, program, bytes);
    copy.to = random_slice(random, program, bytes);
    copies.push_back(copy);
  }
  ops.copies = put(program.copies, copies);
  if (random.below(2) == 0) {
    const ir::Slice to = random_slice(random, program, 32);
    ops.fills = put(program.fills, {{to, static_cast<std::uint64_t>(random.below(1 << 30)), 1}});
  }
  return ops;
}

template <class Message>
Range random_messages(Random& random, ir::Program& program, std::int32_t num_ranks,
                      std::vector<Message>& array, std::int64_t& next_message) {
  const std::size_t first = array.size();
  for (std::int32_t peer = 0; peer < num_ranks; ++peer) {
    if (peer == program.rank.value || random.below(2) == 0) continue;
    const std::size_t first_slice = program.slices.size();
    for (std::int64_t i = random.below(4); i > 0; --i) {
      program.slices.push_back(random_slice(random, program, 16 << random.below(3)));
    }
    array.push_back(
        {RankId(peer), next_message++, ProgramBuilder::since(program.slices, first_slice)});
  }
  return ProgramBuilder::since(array, first);
}

ir::Program random_program(Random& random, RankId rank, std::int32_t num_ranks,
                           std::int64_t& next_message) {
  ir::Program program;
  program.rank = rank;
  const std::int64_t num_storages = 2 + random.below(6);
  for (std::int64_t i = 0; i < num_storages; ++i) {
    Range pieces;
    if (random.below(3) > 0) {
      const std::int64_t row = random.below(3);
      pieces = put(program.pieces, {{TensorId(0), Box{{row, row + 1}, {0, 4}}, 0, Dims{4, 1}}});
    }
    program.storages.push_back(storage(ir::StorageRole::Source, Dtype::Float32, kRandomStorageBytes,
                                       "key" + std::to_string(i),
                                       static_cast<std::int32_t>(random.below(2)), pieces));
  }
  for (std::int32_t number = 0; number < 4; ++number) {
    if (random.below(3) == 0) continue;
    ir::Window window;
    window.number = number;
    if (!program.windows.empty()) {
      window.depends_on = put(program.window_numbers, {program.windows.back().number});
    }
    window.before = random_ops(random, program);
    window.sends = random_messages(random, program, num_ranks, program.sends, next_message);
    window.receives = random_messages(random, program, num_ranks, program.receives, next_message);
    window.after = random_ops(random, program);
    if (random.below(2) == 0) {
      window.free = put(program.storage_ids, {StorageId(0), StorageId(1)});
    }
    program.windows.push_back(window);
  }
  return program;
}

}  // namespace

ir::Schedule every_field() {
  ir::Schedule schedule;
  schedule.request = R"({"model":{"hidden":8,"rate":1.50e-3,"big":18446744073709551615},)"
                     R"("options":[true,null,"caf\u0001é \"x\""],"topology":"nodes=1,gpus=3"})";
  schedule.digests = {std::string(64, 'a'), std::string(64, '1'), std::string(64, 'f'), ""};
  schedule.algorithm = "planned \"v1\"";
  schedule.window_ops = 8;
  schedule.num_windows = 5;
  schedule.ranks = {{RankId(0), DeviceId(2), NodeId(0), true, true, 3},
                    {RankId(1), DeviceId(5), NodeId(0), false, true, -1},
                    {RankId(2), DeviceId(9), NodeId(1), false, false, 0}};
  schedule.tensors = {{"decoder.w", Dims{4, 4}, false},
                      {"embedding.padding", Dims{2}, true},
                      {"step", Dims{}, false}};
  schedule.states = {"param", "exp_avg", "exp_avg_sq"};
  schedule.programs = {source_program(), target_program(), relay_program()};
  canonicalize(schedule);
  return schedule;
}

ir::Schedule four_by_four() {
  ir::Schedule schedule;
  schedule.algorithm = "direct";
  schedule.num_windows = 1;
  schedule.ranks = {{RankId(0), DeviceId(0), NodeId(0), true, false, -1},
                    {RankId(1), DeviceId(1), NodeId(0), false, true, -1}};
  schedule.tensors = {{"w", Dims{4, 4}, false}};
  schedule.states = {"param"};
  ir::Program from;
  from.rank = RankId(0);
  from.pieces = {{TensorId(0), Box{{0, 4}, {0, 4}}, 0, Dims{4, 1}}};
  from.storages = {storage(ir::StorageRole::Source, Dtype::Float32, 64, "w", 0, {0, 1})};
  from.slices = {slice(from, 0, 1, 32, 8, {{2, 16}})};
  from.sends = {{RankId(1), 0, {0, 1}}};
  from.windows.resize(1);
  from.windows[0].sends = {0, 1};
  ir::Program to;
  to.rank = RankId(1);
  to.pieces = {{TensorId(0), Box{{2, 4}, {0, 2}}, 0, Dims{2, 1}}};
  to.storages = {storage(ir::StorageRole::Target, Dtype::Float32, 16, "w", 0, {0, 1})};
  to.storage_ids = {StorageId(0)};
  to.slices = {slice(to, 0, 1, 0, 16)};
  to.receives = {{RankId(0), 0, {0, 1}}};
  to.windows.resize(1);
  to.windows[0].allocate = {0, 1};
  to.windows[0].receives = {0, 1};
  schedule.programs = {from, to};
  return schedule;
}

ir::Schedule random_schedule(std::uint32_t seed) {
  Random random(seed);
  ir::Schedule schedule;
  schedule.algorithm = "random";
  schedule.num_windows = 4;
  schedule.tensors = {{"w", Dims{4, 4}, false}};
  schedule.states = {"param", "exp_avg"};
  const auto num_ranks = static_cast<std::int32_t>(1 + random.below(4));
  std::int64_t next_message = 0;
  for (std::int32_t rank = 0; rank < num_ranks; ++rank) {
    schedule.ranks.push_back({RankId(rank), DeviceId(2 * rank), NodeId(rank / 2), true, true, -1});
    schedule.programs.push_back(random_program(random, RankId(rank), num_ranks, next_message));
  }
  canonicalize(schedule);
  return schedule;
}

}  // namespace plan
