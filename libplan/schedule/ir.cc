#include "libplan/schedule/ir.h"

#include <algorithm>
#include <array>

#include "libplan/base/checked.h"
#include "libplan/base/error.h"

namespace plan::ir {
namespace {

constexpr std::array<std::string_view, 4> kRoleNames = {"source", "target", "scratch", "opaque"};
constexpr std::array<std::string_view, 3> kMemoryNames = {"device", "host", "file"};

template <class Enum, std::size_t N>
std::string_view name_in(const std::array<std::string_view, N>& names, Enum value) {
  const auto index = static_cast<std::size_t>(value);
  PLAN_CHECK(index < N);
  return names[index];
}

template <class Enum, std::size_t N>
std::optional<Enum> value_in(const std::array<std::string_view, N>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

std::int64_t sum_bytes(const Program& program, Range slices) {
  std::int64_t sum = 0;
  for (const Slice& slice : view(program.slices, slices)) {
    sum = checked_add(sum, num_bytes(program, slice));
  }
  return sum;
}

}  // namespace

std::int64_t num_bytes(const Program& program, const Slice& slice) {
  std::int64_t bytes = checked_mul(slice.lanes, slice.run_bytes);
  for (const SliceDim& dim : view(program.slice_dims, slice.dims)) {
    bytes = checked_mul(bytes, dim.count);
  }
  return bytes;
}

std::int64_t num_bytes(const Program& program, const Send& send) {
  return sum_bytes(program, send.slices);
}

std::int64_t num_bytes(const Program& program, const Receive& receive) {
  return sum_bytes(program, receive.slices);
}

std::string_view name_of(StorageRole role) { return name_in(kRoleNames, role); }

std::optional<StorageRole> role_from_name(std::string_view name) {
  return value_in<StorageRole>(kRoleNames, name);
}

std::string_view memory_name(MemoryKind memory) { return name_in(kMemoryNames, memory); }

std::optional<MemoryKind> memory_from_name(std::string_view name) {
  return value_in<MemoryKind>(kMemoryNames, name);
}

const Program* find_program(const Schedule& schedule, RankId rank) {
  const auto found =
      std::lower_bound(schedule.programs.begin(), schedule.programs.end(), rank,
                       [](const Program& program, RankId wanted) { return program.rank < wanted; });
  return found != schedule.programs.end() && found->rank == rank ? &*found : nullptr;
}

Schedule part_of_rank(const Schedule& schedule, RankId rank) {
  const Program* program = find_program(schedule, rank);
  if (program == nullptr) {
    throw Error(ErrorCode::BadInput, "expected a rank whose program the plan holds, found rank " +
                                         std::to_string(rank.value) + " (the plan holds " +
                                         std::to_string(schedule.programs.size()) +
                                         " programs for " + std::to_string(schedule.ranks.size()) +
                                         " ranks)");
  }
  Schedule part;
  part.request = schedule.request;
  part.digests = schedule.digests;
  part.algorithm = schedule.algorithm;
  part.window_ops = schedule.window_ops;
  part.num_windows = schedule.num_windows;
  part.ranks = schedule.ranks;
  part.tensors = schedule.tensors;
  part.states = schedule.states;
  part.programs = {*program};
  return part;
}

}  // namespace plan::ir
