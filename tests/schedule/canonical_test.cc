#include "libplan/schedule/canonical.h"

#include <catch2/catch.hpp>

#include "libplan/base/error.h"
#include "tests/schedule/sample_schedules.h"

namespace plan {
namespace {

// The same content with storage ids, slices and dims of rank 0 stored the other way around, and
// unused entries between.
ir::Schedule rearranged(ir::Schedule schedule) {
  ir::Program& program = schedule.programs[0];
  program.slices.insert(program.slices.begin(), ir::Slice{});
  for (ir::Send& send : program.sends) send.slices.first += 1;
  for (ir::Receive& receive : program.receives) receive.slices.first += 1;
  program.slice_dims.insert(program.slice_dims.begin(), 2, ir::SliceDim{7, 7});
  const auto shift = [](ir::Slice& slice) {
    slice.dims.first += slice.dims.count == 0 ? 1 : 2;  // an empty range may stand anywhere
  };
  for (ir::Slice& slice : program.slices) shift(slice);
  for (ir::Copy& copy : program.copies) {
    shift(copy.from);
    shift(copy.to);
  }
  for (ir::Fill& fill : program.fills) shift(fill.to);
  for (ir::Convert& convert : program.converts) {
    shift(convert.from);
    shift(convert.to);
  }
  // Equal pieces stored once more rather than shared.
  const auto first = static_cast<std::int32_t>(program.pieces.size());
  program.pieces.push_back(program.pieces[0]);
  program.storages[2].pieces = {first, 1};
  return schedule;
}

TEST_CASE("programs with one content have one canonical arrangement and one digest") {
  const ir::Schedule plain = every_field();
  const ir::Schedule moved = rearranged(plain);
  CHECK(moved != plain);
  CHECK(is_canonical(plain.programs[0]));
  CHECK_FALSE(is_canonical(moved.programs[0]));
  CHECK(digest(moved) == digest(plain));
  ir::Schedule arranged = moved;
  canonicalize(arranged);
  CHECK(arranged == plain);
  canonicalize(arranged);
  CHECK(arranged == plain);
}

TEST_CASE("each way of leaving the canonical arrangement is seen") {
  const auto seen = [](auto change) {
    ir::Program program = every_field().programs[0];
    change(program);
    return !is_canonical(program);
  };
  CHECK(seen([](ir::Program& p) { p.pieces.push_back(p.pieces[0]); }));
  CHECK(seen([](ir::Program& p) { p.slice_dims.emplace_back(); }));
  CHECK(seen([](ir::Program& p) { p.fills.push_back(p.fills[0]); }));
  CHECK(seen([](ir::Program& p) { p.windows[0].after.copies.first = 1; }));
  CHECK(seen([](ir::Program& p) { std::swap(p.windows[0].before, p.windows[1].before); }));
  CHECK(seen([](ir::Program& p) { p.storages[7].pieces.first = 1; }));
  CHECK(seen([](ir::Program& p) { p.storages[8].pieces = p.storages[0].pieces; }));
  CHECK(seen([](ir::Program& p) { p.storages[4].pieces.count = 1; }));
  CHECK(seen([](ir::Program& p) { p.copies[1].from.dims.first = 1; }));
  CHECK(seen([](ir::Program& p) { p.receives[0].slices = p.sends[0].slices; }));
}

TEST_CASE("the digest sees every part of a schedule") {
  const std::string before = digest(every_field());
  CHECK(before.size() == 64);
  const auto changed = [&](auto change) {
    ir::Schedule schedule = every_field();
    change(schedule);
    return digest(schedule) != before;
  };
  CHECK(changed([](ir::Schedule& s) { s.request += " "; }));
  CHECK(changed([](ir::Schedule& s) { s.digests.topology = std::string(64, '0'); }));
  CHECK(changed([](ir::Schedule& s) { s.algorithm = ""; }));
  CHECK(changed([](ir::Schedule& s) { s.window_ops = 9; }));
  CHECK(changed([](ir::Schedule& s) { s.num_windows = 6; }));
  CHECK(changed([](ir::Schedule& s) { s.ranks[1].is_source = true; }));
  CHECK(changed([](ir::Schedule& s) { s.ranks[1].rollback_until_window = 0; }));
  CHECK(changed([](ir::Schedule& s) { s.tensors[1].padding = false; }));
  CHECK(changed([](ir::Schedule& s) { s.states[1] = "ema"; }));
  CHECK(changed([](ir::Schedule& s) { s.programs.pop_back(); }));
  CHECK(changed([](ir::Schedule& s) { s.programs[0].storages[3].alias_of = StorageId(); }));
  CHECK(changed([](ir::Schedule& s) { s.programs[0].pieces[0].strides_elems[1] = 0; }));
  CHECK(changed([](ir::Schedule& s) { s.programs[0].fills[0].pattern = 1; }));
  CHECK(changed([](ir::Schedule& s) { s.programs[0].converts[0].to_dtype = Dtype::Float16; }));
  CHECK(changed([](ir::Schedule& s) { s.programs[0].slice_dims[0].stride_bytes = 24; }));
  CHECK(changed([](ir::Schedule& s) { s.programs[1].receives[0].message = 6; }));
  CHECK(changed([](ir::Schedule& s) {
    // allocate and free side by side: the border between two lists counts
    ir::Window& window = s.programs[0].windows[1];
    window.allocate.count -= 1;
    window.free.first -= 1;
    window.free.count += 1;
  }));
}

TEST_CASE("a part keeps the head and one program") {
  const ir::Schedule schedule = every_field();
  const ir::Schedule part = ir::part_of_rank(schedule, RankId(1));
  REQUIRE(part.programs.size() == 1);
  CHECK(part.programs[0] == schedule.programs[1]);
  CHECK(part.ranks == schedule.ranks);
  CHECK(part.request == schedule.request);
  CHECK_THROWS_WITH(ir::part_of_rank(part, RankId(0)), Catch::Contains("found rank 0"));
}

TEST_CASE("bytes of slices and messages count all lanes and repeats") {
  const ir::Schedule schedule = every_field();
  const ir::Program& program = schedule.programs[0];
  CHECK(num_bytes(program, program.copies[0].from) == 64);
  CHECK(num_bytes(program, program.sends[0]) == 48);
  CHECK(num_bytes(program, program.receives[0]) == 16);
}

}  // namespace
}  // namespace plan
