#include "libplan/execute/host/host_replay.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "libplan/base/error.h"
#include "libplan/execute/host/oracle.h"
#include "tests/execute/host/hand_schedule.h"

namespace plan {
namespace {

using ir::StorageRole;

void require_right(const ir::Schedule& schedule, const ReplayOptions& options = {},
                   const OracleRules& rules = {}) {
  const CheckedReplay result = replay_checked(schedule, options, rules);
  INFO(to_string(result.targets) << "\nsources: " << to_string(result.sources));
  REQUIRE(result.targets.elements > 0);
  REQUIRE(result.ok());
}

TEST_CASE(
    "blocks of a matrix move between grids, whole, strided, in lanes, with and without shift") {
  for (const int lanes : {1, 3}) {
    for (const Dtype dtype : {Dtype::UInt8, Dtype::BFloat16, Dtype::Float32, Dtype::Float64}) {
      for (const int shift : {0, 1, 3}) {
        CAPTURE(lanes, shift, name_of(dtype));
        const GridJob base{.ranks = 4,
                           .ranks_per_node = 2,
                           .rows = 26,
                           .cols = 37,
                           .dtype = dtype,
                           .lanes = lanes,
                           .shift = shift};
        GridJob job = base;
        job.source_rows = 4, job.target_cols = 4;
        require_right(grid_schedule(job));
        job = base;
        job.source_rows = 2, job.source_cols = 2, job.target_rows = 3;
        require_right(grid_schedule(job));
        job = base;
        job.source_cols = 3, job.target_rows = 1, job.target_cols = 4, job.free_sources = true;
        require_right(grid_schedule(job));
      }
    }
  }
}

TEST_CASE("both ends share the parts of a message, at any part size") {
  for (const std::int64_t part_bytes : {1, 7, 64, 1000, 1 << 20}) {
    CAPTURE(part_bytes);
    require_right(grid_schedule({.ranks = 3,
                                 .rows = 20,
                                 .cols = 31,
                                 .lanes = 2,
                                 .source_rows = 3,
                                 .target_cols = 3,
                                 .shift = 1}),
                  {.part_bytes = part_bytes});
  }
}

TEST_CASE("64 ranks exchange all with all over 63 windows") {
  require_right(
      grid_schedule({.ranks = 64, .rows = 128, .cols = 192, .source_rows = 64, .target_cols = 64}));
}

TEST_CASE("more messages a window than the ranks' cores: 300 ranks pass blocks round") {
  require_right(grid_schedule(
      {.ranks = 300, .rows = 600, .cols = 5, .source_rows = 300, .target_rows = 300, .shift = 7}));
}

TEST_CASE("the report counts bytes by kind, messages and peaks") {
  // 4 x 4 floats, rows to columns on 4 ranks of 2 nodes: each rank keeps 1 element, sends 1 to
  // each.
  const ir::Schedule schedule = grid_schedule({.ranks = 4,
                                               .ranks_per_node = 2,
                                               .rows = 4,
                                               .cols = 4,
                                               .source_rows = 4,
                                               .target_cols = 4,
                                               .free_sources = true});
  HostMemory memory(schedule);
  memory.allocate_sources();
  const ReplayReport report = replay(schedule, memory);
  REQUIRE(report.local_bytes == 4 * 4);
  REQUIRE(report.intra_node_bytes == 4 * 4);
  REQUIRE(report.inter_node_bytes == 8 * 4);
  REQUIRE(report.filled_bytes == 0);
  REQUIRE(report.messages == 12);
  REQUIRE(report.peak_bytes == std::vector<std::int64_t>(4, 32));
  REQUIRE(memory.current_bytes(RankId(2)) == 16);
  REQUIRE(report.total_seconds > 0);
  REQUIRE(report.gigabytes_per_second() > 0);
}

// A vector of 8 floats goes from rank 0 through scratch on rank 1 to rank 2; rank 3 does nothing.
struct Relay {
  HandSchedule hand{4, 1};
  TensorId tensor = hand.tensor("w", {8});
  StateId state = hand.state("param");
  StorageId source = hand.block(0, StorageRole::Source, state, Dtype::Float32, tensor, {{0, 8}});
  StorageId scratch = hand.scratch(1, 64);
  StorageId target = hand.block(2, StorageRole::Target, state, Dtype::Float32, tensor, {{0, 8}});

  ir::Schedule finish(int last_window = 900) {
    hand.allocate(1, 0, scratch);
    hand.message(0, 0, {hand.slice(0, source, 0, 32)}, 1, {hand.slice(1, scratch, 0, 4, {{8, 8}})});
    hand.free(0, 0, source);
    hand.allocate(2, 5, target);
    hand.message(last_window, 1, {hand.slice(1, scratch, 0, 4, {{8, 8}})}, 2,
                 {hand.slice(2, target, 16, 16), hand.slice(2, target, 0, 16)});
    hand.free(1, last_window, scratch);
    return hand.finish();
  }
};

TEST_CASE("a relay passes bytes on in a later window; windows between are empty") {
  Relay relay;
  const ir::Schedule schedule = relay.finish();
  // The last message swaps halves on purpose: the oracle must see it.
  const CheckedReplay wrong = replay_checked(schedule);
  REQUIRE(wrong.targets.mismatches == 3 * 8);
  ir::Schedule right = schedule;
  std::swap(right.programs[2].slices[0], right.programs[2].slices[1]);
  require_right(right);
}

TEST_CASE("an alias keeps its source's bytes in place") {
  HandSchedule hand(2);
  const TensorId tensor = hand.tensor("w", {8});
  const StateId state = hand.state("param");
  const StorageId kept =
      hand.block(0, StorageRole::Source, state, Dtype::Float32, tensor, {{0, 8}});
  const StorageId alias = hand.storage(0, StorageRole::Target, state, Dtype::Float32,
                                       {{tensor, {{0, 8}}, 0, {1}}}, 0, kept);
  const StorageId copy =
      hand.block(1, StorageRole::Target, state, Dtype::Float32, tensor, {{0, 8}});
  hand.allocate(0, 0, alias);
  hand.allocate(1, 0, copy);
  hand.message(1, 0, {hand.slice(0, alias, 0, 32)}, 1, {hand.slice(1, copy, 0, 32)});
  require_right(hand.finish());
}

TEST_CASE("fills, casts and padding: new padding rows are zero, old ones move") {
  HandSchedule hand(2);
  const TensorId tensor = hand.tensor("w", {6, 4});
  const TensorId padding = hand.tensor("w.padding", {3, 4}, true);
  const StateId main = hand.state("main_param");
  const StateId param = hand.state("param");
  // Rank 0 holds the fp32 tensor and one padding row; rank 1 wants three padding rows, and bf16.
  const auto pieces = [&](std::int64_t padding_rows) {
    return std::vector<ir::Piece>{{tensor, {{0, 6}, {0, 4}}, 0, {4, 1}},
                                  {padding, {{0, padding_rows}, {0, 4}}, 24, {4, 1}}};
  };
  const StorageId source = hand.storage(0, StorageRole::Source, main, Dtype::Float32, pieces(1));
  const StorageId target = hand.storage(1, StorageRole::Target, main, Dtype::Float32, pieces(3));
  const StorageId cast = hand.storage(1, StorageRole::Target, param, Dtype::BFloat16, pieces(3));
  hand.allocate(1, 0, target);
  hand.allocate(1, 1, cast);
  hand.fill(1, 0, Moment::Before, {hand.slice(1, target, 112, 32), 0, 4});
  hand.message(0, 0, {hand.slice(0, source, 0, 112)}, 1, {hand.slice(1, target, 0, 112)});
  hand.convert(1, 1, Moment::Before,
               {hand.slice(1, target, 0, 144), hand.slice(1, cast, 0, 8, {{9, 8}}), Dtype::Float32,
                Dtype::BFloat16});
  const ir::Schedule schedule = hand.finish();
  require_right(schedule, {}, {.derived = {{"param", "main_param"}}});

  ir::Schedule unfilled = schedule;
  unfilled.programs[1].fills[0].pattern = 1;
  const CheckedReplay result = replay_checked(unfilled, {}, {.derived = {{"param", "main_param"}}});
  REQUIRE(result.targets.mismatches == 3 * (8 + 0));  // 1 is a subnormal: it casts to zero
}

TEST_CASE("a rank's windows may be run step by step") {
  const ir::Schedule schedule = grid_schedule(
      {.ranks = 4, .rows = 8, .cols = 8, .lanes = 2, .source_rows = 4, .target_cols = 4});
  HostMemory memory(schedule, {.poison = true});
  memory.allocate_sources();
  fill_sources(schedule, memory, 5);
  for (int window = 0; window < schedule.num_windows; ++window) {
    if (window > 0) REQUIRE_FALSE(check_targets(schedule, memory, 5).ok());
    replay(schedule, memory, {.first_window = window, .end_window = window + 1});
  }
  REQUIRE(check_targets(schedule, memory, 5).ok());
}

TEST_CASE("messages of several megabytes") {
  require_right(grid_schedule({.ranks = 2,
                               .rows = 2048,
                               .cols = 1024,
                               .lanes = 3,
                               .source_rows = 2,
                               .target_cols = 2,
                               .shift = 1}));
}

std::string failure_of(const ir::Schedule& schedule, HostMemory& memory,
                       const ReplayOptions& options) {
  try {
    replay(schedule, memory, options);
  } catch (const Error& error) {
    REQUIRE(error.code() == ErrorCode::Executor);
    return error.what();
  }
  FAIL("the replay should have failed");
  return {};
}

TEST_CASE("a deadlock ends after the timeout and names window, op, peer and bytes of each rank") {
  Relay relay;
  relay.hand.send(3, 2, 1, 100, {});  // no one receives it
  const ir::Schedule broken = [&] {
    ir::Schedule schedule = relay.finish(7);
    schedule.programs[1].windows[0].receives.count = 0;  // rank 1 forgets to receive
    return schedule;
  }();
  HostMemory memory(broken);
  memory.allocate_sources();
  const std::string what = failure_of(broken, memory, {.timeout_seconds = 0.3});
  REQUIRE_THAT(what, Catch::Contains("found 2 messages that wait for their other end"));
  REQUIRE_THAT(what, Catch::Contains("rank 0, window 0, send to rank 1 of 32 bytes, message 0"));
  REQUIRE_THAT(what, Catch::Contains("rank 3, window 2, send to rank 1 of 0 bytes, message 100"));
}

TEST_CASE("ends of one message that do not fit are named") {
  Relay relay;
  ir::Schedule schedule = relay.finish();
  schedule.programs[1].slices[0].run_bytes = 2;
  HostMemory memory(schedule);
  memory.allocate_sources();
  REQUIRE_THAT(failure_of(schedule, memory, {}),
               Catch::Contains("rank 0, window 0, send to rank 1 of 32 bytes, message 0") &&
                   Catch::Contains("rank 1, window 0, receive from rank 0 of 16 bytes"));
}

TEST_CASE("one end of a message given twice is refused") {
  ir::Schedule schedule = grid_schedule(
      {.ranks = 3, .rows = 6, .cols = 6, .source_rows = 3, .target_rows = 3, .shift = 1});
  for (ir::Program& program : schedule.programs) {
    for (ir::Send& send : program.sends) send.message = 0;
  }
  HostMemory memory(schedule);
  memory.allocate_sources();
  REQUIRE_THAT(failure_of(schedule, memory, {.timeout_seconds = 5}),
               Catch::Contains("expected each end of message 0 once") ||
                   Catch::Contains("expected two fitting ends of one message"));
}

TEST_CASE("a rank that fails stops the others at once and leaves every source as it was") {
  const ir::Schedule schedule = grid_schedule(
      {.ranks = 4, .rows = 64, .cols = 64, .lanes = 2, .source_rows = 4, .target_cols = 4});
  for (const int fail_window : {0, 2, 3, 50}) {
    CAPTURE(fail_window);
    HostMemory memory(schedule, {.poison = true});
    memory.allocate_sources();
    fill_sources(schedule, memory, 9);
    const std::string what =
        failure_of(schedule, memory, {.fail_rank = RankId(2), .fail_window = fail_window});
    REQUIRE(what ==
            "rank 2, window " + std::to_string(std::min(fail_window, 3)) + ": injected fault");
    const CheckReport sources = check_sources(schedule, memory, 9);
    REQUIRE(sources.ok());
    REQUIRE(sources.elements == 2 * 64 * 64);
    memory.roll_back();
    replay(schedule, memory);  // the same state can be switched again
    REQUIRE(check_targets(schedule, memory, 9).ok());
  }
}

TEST_CASE("reading a freed storage is an error, not a wrong byte") {
  Relay relay;
  relay.hand.message(3, 0, {relay.hand.slice(0, relay.source, 0, 8)}, 1,
                     {relay.hand.slice(1, relay.scratch, 0, 8)});
  const ir::Schedule schedule = relay.finish();
  HostMemory memory(schedule);
  memory.allocate_sources();
  REQUIRE_THAT(failure_of(schedule, memory, {}),
               Catch::Contains("rank 0, window 3") && Catch::Contains("expected a live storage"));
}

TEST_CASE("a schedule that moves nothing is replayed") {
  HandSchedule hand(200);
  const ir::Schedule schedule = hand.finish();
  HostMemory memory(schedule);
  memory.allocate_sources();
  const ReplayReport report = replay(schedule, memory);
  REQUIRE(report.messages == 0);
  REQUIRE(report.peak_bytes == std::vector<std::int64_t>(200, 0));
}

}  // namespace
}  // namespace plan
