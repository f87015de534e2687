#include "libplan/execute/host/host_memory.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "libplan/base/error.h"
#include "tests/execute/host/hand_schedule.h"

namespace plan {
namespace {

using ir::StorageRole;

const RankId kRank{0};

// Rank 0 has a source of 64 bytes, a target of 32, an alias of the source, and a scratch of 8 MiB.
struct Fixture {
  HandSchedule hand{1};
  TensorId tensor = hand.tensor("w", {16});
  StateId state = hand.state("param");
  StorageId source = hand.block(0, StorageRole::Source, state, Dtype::Float32, tensor, {{0, 16}});
  StorageId target = hand.block(0, StorageRole::Target, state, Dtype::BFloat16, tensor, {{0, 16}});
  StorageId alias = hand.storage(0, StorageRole::Target, state, Dtype::Float32,
                                 {{tensor, {{0, 16}}, 0, {1}}}, 0, source);
  StorageId scratch = hand.scratch(0, 8 << 20);
  ir::Schedule schedule = hand.finish();
};

TEST_CASE("current and peak bytes follow allocations; an alias counts nothing") {
  const Fixture f;
  HostMemory memory(f.schedule);
  memory.allocate_sources();
  REQUIRE(memory.current_bytes(kRank) == 64);
  memory.allocate(kRank, f.target);
  memory.allocate(kRank, f.scratch);
  memory.free(kRank, f.scratch);
  memory.allocate(kRank, f.alias);
  REQUIRE(memory.current_bytes(kRank) == 64 + 32);
  REQUIRE(memory.peak_bytes(kRank) == 64 + 32 + (8 << 20));
  REQUIRE(memory.data(kRank, f.alias) == memory.data(kRank, f.source));
  REQUIRE_FALSE(memory.is_live(kRank, f.scratch));
}

TEST_CASE("misuse is refused with rank and storage") {
  const Fixture f;
  HostMemory memory(f.schedule);
  REQUIRE_THROWS_WITH(memory.data(kRank, f.source),
                      "rank 0, storage 0 (storage0): expected a live storage, found one that is "
                      "not");
  memory.allocate_sources();
  memory.allocate(kRank, f.target);
  REQUIRE_THROWS_AS(memory.allocate(kRank, f.target), Error);
  REQUIRE_THROWS_AS(memory.free(kRank, f.scratch), Error);
  memory.allocate(kRank, f.alias);
  REQUIRE_THROWS_WITH(memory.free(kRank, f.source),
                      Catch::Contains("a source whose bytes a target took over"));
  std::vector<std::byte> bytes(64);
  REQUIRE_THROWS_AS(memory.bind(kRank, f.source, bytes), Error);
  REQUIRE_THROWS_AS(memory.bind(kRank, f.alias, bytes), Error);
  REQUIRE_THROWS_WITH(memory.bind(kRank, f.scratch, bytes),
                      "rank 0, storage 3: expected at least 8388608 bytes, found 64");
  HostMemory other(f.schedule);
  REQUIRE_THROWS_AS(other.allocate(kRank, f.alias), Error);
}

TEST_CASE("poison covers new targets and scratch and spares sources") {
  const Fixture f;
  HostMemory memory(f.schedule, {.poison = true});
  std::vector<std::byte> mine(64, std::byte{1});
  std::vector<std::byte> result(40, std::byte{2});
  memory.bind(kRank, f.source, mine);
  memory.bind(kRank, f.target, result);
  memory.allocate_sources();
  memory.allocate(kRank, f.target);
  memory.allocate(kRank, f.scratch);
  REQUIRE(memory.data(kRank, f.source) == mine.data());
  REQUIRE(std::count(mine.begin(), mine.end(), std::byte{1}) == 64);
  REQUIRE(std::count(result.begin(), result.end(), HostMemory::kPoison) == 32);
  const auto scratch = memory.bytes(kRank, f.scratch);
  REQUIRE(std::count(scratch.begin(), scratch.end(), HostMemory::kPoison) == 8 << 20);
}

TEST_CASE("roll back drops targets and scratch and keeps sources") {
  const Fixture f;
  HostMemory memory(f.schedule);
  memory.allocate_sources();
  memory.allocate(kRank, f.target);
  memory.allocate(kRank, f.scratch);
  memory.allocate(kRank, f.alias);
  memory.roll_back();
  REQUIRE(memory.current_bytes(kRank) == 64);
  REQUIRE(memory.is_live(kRank, f.source));
  REQUIRE_FALSE(memory.is_live(kRank, f.alias));
  memory.free(kRank, f.source);
  REQUIRE(memory.current_bytes(kRank) == 0);
}

TEST_CASE("large and aligned storages lie where they ask") {
  HandSchedule hand(1);
  const StorageId small = hand.scratch(0, 100);
  const StorageId large = hand.scratch(0, 9 << 20);
  const StorageId empty = hand.scratch(0, 0);
  ir::Schedule schedule = hand.finish();
  schedule.programs[0].storages[0].alignment = 4096;
  HostMemory memory(schedule);
  for (const StorageId id : {small, large, empty}) memory.allocate(kRank, id);
  REQUIRE(reinterpret_cast<std::uintptr_t>(memory.data(kRank, small)) % 4096 == 0);
  REQUIRE(reinterpret_cast<std::uintptr_t>(memory.data(kRank, large)) % (2 << 20) == 0);
  REQUIRE(memory.bytes(kRank, empty).empty());
}

}  // namespace
}  // namespace plan
