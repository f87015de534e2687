#include "libplan/execute/host/oracle.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <set>
#include <vector>

#include "libplan/base/error.h"
#include "tests/execute/host/hand_schedule.h"

namespace plan {
namespace {

using ir::StorageRole;

TEST_CASE("values depend on seed, tensor, state and index, not on where they lie") {
  HandSchedule hand(2);
  const TensorId w = hand.tensor("w", {4, 4});
  const TensorId v = hand.tensor("v", {4, 4});
  const StateId avg = hand.state("exp_avg");
  const StateId main = hand.state("main_param");
  const Box whole = {{0, 4}, {0, 4}};
  const StorageId rows = hand.block(0, StorageRole::Source, avg, Dtype::Int64, w, whole);
  // The same box column by column, with a gap after each column.
  const StorageId columns =
      hand.storage(1, StorageRole::Source, avg, Dtype::Int64, {{w, whole, 3, {1, 5}}});
  hand.block(1, StorageRole::Source, main, Dtype::Int64, w, whole);
  hand.block(1, StorageRole::Source, avg, Dtype::Int64, v, whole);
  const ir::Schedule schedule = hand.finish();
  HostMemory memory(schedule);
  memory.allocate_sources();
  std::set<std::int64_t> seen;
  for (const std::uint64_t seed : {1, 2}) {
    fill_sources(schedule, memory, seed);
    const auto element = [&](int rank, StorageId id, std::int64_t index) {
      std::int64_t value = 0;
      std::memcpy(&value, memory.data(RankId(rank), id) + 8 * index, 8);
      return value;
    };
    for (std::int64_t row = 0; row < 4; ++row) {
      for (std::int64_t col = 0; col < 4; ++col) {
        REQUIRE(element(0, rows, row * 4 + col) == element(1, columns, 3 + row + 5 * col));
      }
    }
    for (std::int64_t i = 0; i < 16; ++i) {
      seen.insert({element(0, rows, i), element(1, StorageId(1), i), element(1, StorageId(2), i)});
    }
  }
  REQUIRE(seen.size() == 2 * 3 * 16);
}

TEST_CASE("values do not depend on the order of tensors and states") {
  const auto first_element = [](bool swapped) {
    HandSchedule hand(1);
    if (swapped) hand.tensor("other", {2});
    if (swapped) hand.state("other");
    const TensorId w = hand.tensor("w", {4});
    const StateId avg = hand.state("exp_avg");
    hand.block(0, StorageRole::Source, avg, Dtype::Int64, w, {{0, 4}});
    const ir::Schedule schedule = hand.finish();
    HostMemory memory(schedule);
    memory.allocate_sources();
    fill_sources(schedule, memory, 3);
    std::int64_t value = 0;
    std::memcpy(&value, memory.data(RankId(0), StorageId(0)), 8);
    return value;
  };
  REQUIRE(first_element(false) == first_element(true));
}

TEST_CASE("every planted fault in a good schedule is found") {
  const GridJob job{.ranks = 4,
                    .rows = 12,
                    .cols = 20,
                    .dtype = Dtype::BFloat16,
                    .lanes = 3,
                    .source_rows = 4,
                    .target_cols = 4};
  const ir::Schedule good = grid_schedule(job);
  REQUIRE(replay_checked(good).ok());

  SECTION("a slice read one row too early") {
    ir::Schedule bad = good;
    bad.programs[1].slice_dims[0].stride_bytes -= 2;
    const CheckedReplay result = replay_checked(bad);
    REQUIRE_FALSE(result.targets.ok());
    REQUIRE(result.targets.first.size() == CheckReport::kMostKept);
    REQUIRE(result.sources.ok());
  }
  SECTION("a message written to another offset leaves poison") {
    ir::Schedule bad = good;
    ir::Program& program = bad.programs[2];
    const auto written = static_cast<std::size_t>(program.receives[1].slices.first);
    program.slices[written].offset_bytes += 2;
    REQUIRE_FALSE(replay_checked(bad).targets.ok());
  }
  SECTION("a copy that overwrites a source once all is sent") {
    ir::Schedule bad = good;
    ir::Program& program = bad.programs[3];
    program.windows.back().after.copies = {static_cast<std::int32_t>(program.copies.size()), 1};
    program.copies.push_back({{StorageId(3), 1, 0, 20, {}}, {StorageId(0), 1, 0, 20, {}}});
    const CheckedReplay result = replay_checked(bad);
    REQUIRE(result.sources.mismatches > 3 * 5);
    REQUIRE(result.targets.ok());
  }
  SECTION("lanes exchanged") {
    ir::Schedule bad = good;
    std::swap(bad.programs[0].storages[3].state, bad.programs[0].storages[4].state);
    const CheckedReplay result = replay_checked(bad);
    REQUIRE(result.targets.mismatches > 3 * 2 * 12 * 5 * 9 / 10);
  }
  SECTION("a dropped copy") {
    ir::Schedule bad = good;
    bad.programs[0].windows[0].after.copies.count = 0;
    const CheckedReplay result = replay_checked(bad);
    REQUIRE(result.targets.mismatches >= 3 * 3 * 15 - 5);  // bf16: a chance of 1 in 65,536 each
    const Mismatch& first = result.targets.first.at(0);
    REQUIRE(first.rank == RankId(0));
    REQUIRE(first.tensor == "matrix");
    REQUIRE(first.state == "state0");
    REQUIRE(first.index == Dims{0, 0});
    REQUIRE(first.found == 0xa5a5);
    REQUIRE_THAT(to_string(result.targets),
                 Catch::Contains("rank 0, storage 3 (storage3), tensor matrix, state state0, "
                                 "element [0, 0]: expected 0x"));
  }
  SECTION("a target never allocated, or freed") {
    ir::Schedule bad = good;
    bad.programs[0].windows.back().free = bad.programs[0].windows[0].allocate;
    const CheckedReplay result = replay_checked(bad);
    REQUIRE(result.targets.mismatches == 0);
    REQUIRE(result.targets.missing.size() == 3 * 3);
    REQUIRE(result.targets.missing[0] == "rank 0, storage 3 (storage3)");
    REQUIRE_FALSE(result.ok());
  }
}

TEST_CASE("padding held in part, by scattered boxes: held elements move, the others are the fill") {
  HandSchedule hand(1);
  const TensorId padding = hand.tensor("w.padding", {3, 4}, true);
  const StateId state = hand.state("param");
  hand.storage(0, StorageRole::Source, state, Dtype::Int32,
               {{padding, {{0, 1}, {2, 4}}, 0, {2, 1}}, {padding, {{1, 2}, {0, 4}}, 2, {4, 1}}});
  const StorageId target = hand.storage(0, StorageRole::Target, state, Dtype::Int32,
                                        {{padding, {{0, 3}, {0, 4}}, 0, {4, 1}}});
  hand.allocate(0, 0, target);
  hand.fill(0, 0, Moment::Before, {hand.slice(0, target, 0, 8, {{2, 32}}), 7, 4});
  hand.fill(0, 0, Moment::Before, {hand.slice(0, target, 40, 8), 7, 4});
  hand.copy(0, 0, Moment::After, hand.slice(0, StorageId(0), 0, 24), hand.slice(0, target, 8, 24));
  const ir::Schedule schedule = hand.finish();
  REQUIRE(replay_checked(schedule, {}, {.padding_fill = 7}).ok());
  REQUIRE(replay_checked(schedule).targets.mismatches == 3 * 6);
}

TEST_CASE("derived state has its origin's values on both sides; others keep their own") {
  HandSchedule hand(1);
  const TensorId w = hand.tensor("w", {8});
  const TensorId frozen = hand.tensor("frozen", {8});
  const StateId main = hand.state("main_param");
  const StateId param = hand.state("param");
  hand.block(0, StorageRole::Source, main, Dtype::Float32, w, {{0, 8}});
  hand.block(0, StorageRole::Source, param, Dtype::BFloat16, w, {{0, 8}});
  hand.block(0, StorageRole::Source, param, Dtype::BFloat16, frozen, {{0, 8}});
  const StorageId cast = hand.block(0, StorageRole::Target, param, Dtype::BFloat16, w, {{0, 8}});
  const StorageId moved =
      hand.block(0, StorageRole::Target, param, Dtype::Float32, frozen, {{0, 8}});
  hand.allocate(0, 0, cast);
  hand.allocate(0, 0, moved);
  hand.convert(0, 0, Moment::After,
               {hand.slice(0, StorageId(0), 0, 32), hand.slice(0, cast, 0, 16), Dtype::Float32,
                Dtype::BFloat16});
  hand.convert(0, 0, Moment::After,
               {hand.slice(0, StorageId(2), 0, 16), hand.slice(0, moved, 0, 32), Dtype::BFloat16,
                Dtype::Float32});
  const ir::Schedule schedule = hand.finish();
  REQUIRE(replay_checked(schedule, {}, {.derived = {{"param", "main_param"}}}).ok());
  REQUIRE_FALSE(replay_checked(schedule).ok());  // without the rule, param is its own state

  ir::Schedule moves = schedule;  // moving the derived state is as right as casting it again
  moves.programs[0].converts[0] = {
      {StorageId(1), 1, 0, 16, {}}, {cast, 1, 0, 16, {}}, Dtype::BFloat16, Dtype::BFloat16};
  REQUIRE(replay_checked(moves, {}, {.derived = {{"param", "main_param"}}}).ok());
  REQUIRE_THROWS_WITH(
      replay_checked(schedule, {}, {.derived = {{"param", "main_param"}, {"main_param", "param"}}}),
      Catch::Contains("expected states derived from stored ones"));
}

TEST_CASE("sources of one tensor's state must agree in dtype, and casts must exist") {
  HandSchedule hand(1);
  const TensorId w = hand.tensor("w", {8});
  const StateId state = hand.state("step");
  hand.block(0, StorageRole::Source, state, Dtype::Int32, w, {{0, 8}});
  HandSchedule two_dtypes = hand;
  two_dtypes.block(0, StorageRole::Source, state, Dtype::Float32, w, {{0, 8}});
  REQUIRE_THROWS_WITH(replay_checked(two_dtypes.finish()),
                      "tensor w, state step: expected one dtype for all sources, found int32 and "
                      "fp32");
  const StorageId target = hand.block(0, StorageRole::Target, state, Dtype::Float32, w, {{0, 8}});
  hand.allocate(0, 0, target);
  REQUIRE_THROWS_AS(replay_checked(hand.finish()), Error);
}

TEST_CASE("scalars and odd strides are walked right") {
  HandSchedule hand(1);
  const TensorId step = hand.tensor("step", {});
  const TensorId cube = hand.tensor("cube", {3, 4, 5});
  const StateId state = hand.state("state");
  hand.block(0, StorageRole::Source, state, Dtype::Float32, step, {});
  // Twice: the box in the tensor's order, and with its axes stored in another order.
  const Box box = {{1, 3}, {0, 4}, {2, 5}};
  hand.block(0, StorageRole::Source, state, Dtype::Float32, cube, box);
  const StorageId scalar = hand.block(0, StorageRole::Target, state, Dtype::Float32, step, {});
  const StorageId turned =
      hand.storage(0, StorageRole::Target, state, Dtype::Float32, {{cube, box, 0, {1, 6, 2}}});
  for (const StorageId id : {scalar, turned}) hand.allocate(0, 0, id);
  hand.copy(0, 0, Moment::After, hand.slice(0, StorageId(0), 0, 4), hand.slice(0, scalar, 0, 4));
  hand.copy(0, 0, Moment::After, hand.slice(0, StorageId(1), 0, 96),
            hand.slice(0, turned, 0, 4, {{2, 4}, {4, 24}, {3, 8}}));
  REQUIRE(replay_checked(hand.finish()).ok());
}

}  // namespace
}  // namespace plan
