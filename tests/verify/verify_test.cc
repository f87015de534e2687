#include "libplan/verify/verify.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <string>

#include "tests/verify/builder.h"
#include "tests/verify/interpreter.h"

namespace plan::verify {
namespace {

using testing::Case;
using testing::good_case;

std::string show(const Report& report) {
  std::string text;
  for (const Diagnostic& diagnostic : report.findings) text += to_string(diagnostic) + "\n";
  return text;
}

Report check(const Case& of, const Options& options = {}) {
  return verify(flatten(of), of.source, of.target, options);
}

bool has(const Report& report, const std::string& rule) {
  for (const Diagnostic& diagnostic : report.findings) {
    if (diagnostic.rule == rule) return true;
  }
  return false;
}

const Diagnostic& find(const Report& report, const std::string& rule) {
  for (const Diagnostic& diagnostic : report.findings) {
    if (diagnostic.rule == rule) return diagnostic;
  }
  FAIL("no " << rule << " in:\n" << show(report));
  throw std::logic_error("unreachable");
}

testing::WindowSpec& window(Case& of, int program, int position) {
  return of.programs[static_cast<std::size_t>(program)].windows[static_cast<std::size_t>(position)];
}

TEST_CASE("a good schedule has no findings, and its figures are right") {
  const Case good = good_case();
  const Report report = check(good);
  INFO(show(report));
  CHECK(report.ok());
  CHECK(testing::interpret(flatten(good)).empty());
  CHECK(report.complete);
  CHECK(report.messages == 5);
  // Written: w on ranks 0 and 2 in three lanes of 32 bytes, t 32, v with padding 40, w16 16.
  CHECK(report.checked_bytes == 2 * 96 + 32 + 40 + 16);
  // Rank 0: w 96, t 64, b 16; then w 96 more, b in place.
  CHECK(report.peak_bytes[0] == 96 + 64 + 16 + 96);
  // Rank 1: w 96, v 32; in window 0 two scratches of 48; in window 1 one and t.
  CHECK(report.peak_bytes[1] == 96 + 32 + 96);
  CHECK(report.peak_bytes[2] == 96 + 96 + 48);
}

TEST_CASE("each planted fault is found under its rule") {
  struct Fault {
    std::string name;
    std::string rule;
    std::function<void(Case&)> plant;
  };
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  const std::vector<Fault> faults = {
      // Structure.
      {"workers not ascending", "V001", [](Case& c) { c.frame.ranks[2].worker = DeviceId(1); }},
      {"rank out of order", "V001", [](Case& c) { c.frame.ranks[1].rank = RankId(2); }},
      {"program of an unknown rank", "V002", [](Case& c) { c.programs[1].rank = 7; }},
      {"two programs of a rank", "V002", [](Case& c) { c.programs[1].rank = 0; }},
      {"unknown peer", "V004", [](Case& c) { window(c, 0, 0).sends[0].peer = 9; }},
      {"unknown storage", "V004", [](Case& c) { window(c, 0, 0).sends[0].slices[0].storage = 99; }},
      {"lanes beyond the storages", "V004",
       [](Case& c) { window(c, 0, 0).sends[0].slices[0].lanes = 2147483647; }},
      {"unknown storage allocated", "V004", [](Case& c) { window(c, 0, 0).allocate[0] = -1; }},
      {"state missing", "V004", [](Case& c) { c.programs[0].storages[0].storage.state = {}; }},
      {"negative run", "V005", [](Case& c) { window(c, 0, 0).sends[0].slices[0].run = -16; }},
      {"negative stride", "V005",
       [](Case& c) { window(c, 0, 1).sends[0].slices[0].dims[0].stride_bytes = -16; }},
      {"negative count", "V005",
       [](Case& c) { window(c, 0, 1).sends[0].slices[0].dims[0].count = -4; }},
      {"too many dimensions", "V005",
       [](Case& c) { window(c, 0, 1).sends[0].slices[0].dims.resize(9); }},
      {"odd pattern", "V005", [](Case& c) { window(c, 2, 1).after.fills[0].pattern_bytes = 3; }},
      {"negative size", "V005", [](Case& c) { c.programs[1].storages[5].storage.size_bytes = -1; }},
      {"address overflow", "V006",
       [=](Case& c) { window(c, 0, 0).sends[0].slices[0].offset = huge; }},
      {"stride overflow", "V006",
       [=](Case& c) { window(c, 0, 1).sends[0].slices[0].dims[0].stride_bytes = huge; }},
      {"count overflow", "V006",
       [=](Case& c) { window(c, 0, 1).sends[0].slices[0].dims[0].count = huge; }},
      {"windows not ascending", "V007", [](Case& c) { window(c, 0, 1).number = 0; }},
      {"window beyond the last", "V007", [](Case& c) { window(c, 0, 1).number = 4; }},
      {"piece outside its tensor", "V008",
       [](Case& c) { c.programs[0].storages[0].pieces[0].box[0].end = 5; }},
      {"piece outside its storage", "V008",
       [](Case& c) { c.programs[0].storages[0].pieces[0].offset_elems = 1; }},
      {"pieces that coincide", "V008",
       [](Case& c) { c.programs[0].storages[0].pieces[0].strides_elems[0] = 1; }},
      {"two tensors of one name", "V010", [](Case& c) { c.frame.tensors[1].name = "w"; }},
      // Request.
      {"tensor of another shape", "V102",
       [](Case& c) {
         c.target.tensors[0].shape = {4, 8};
       }},
      {"storage missing", "V103", [](Case& c) { c.source.devices[0].storages[0].key = "other"; }},
      {"storage not in the layout", "V104",
       [](Case& c) { c.source.devices[0].storages[0].lanes.pop_back(); }},
      {"another dtype", "V105",
       [](Case& c) { c.source.devices[0].storages[1].lanes[0].dtype = Dtype::Int32; }},
      {"another memory", "V105",
       [](Case& c) { c.source.devices[0].storages[1].memory = MemoryKind::Host; }},
      {"other pieces", "V106",
       [](Case& c) {
         c.source.devices[0].storages[0].shards[0].box[1] = {1, 3};
       }},
      {"target worker without rank", "V107",
       [](Case& c) { c.target.devices[2].device = DeviceId(8); }},
      {"role", "V108", [](Case& c) { c.frame.ranks[2].is_source = true; }},
      // Messages.
      {"message number twice", "V201", [](Case& c) { window(c, 0, 1).sends[0].message = 3; }},
      {"send dropped", "V202", [](Case& c) { window(c, 0, 0).sends.clear(); }},
      {"receive dropped", "V202", [](Case& c) { window(c, 2, 0).receives.clear(); }},
      {"send retargeted", "V203", [](Case& c) { window(c, 0, 0).sends[0].peer = 2; }},
      {"ends in different windows", "V204", [](Case& c) { window(c, 0, 1).number = 3; }},
      {"sizes differ", "V205", [](Case& c) { window(c, 0, 0).sends[0].slices[0].run = 12; }},
      {"one pair twice in a window", "V206",
       [](Case& c) {
         window(c, 0, 0).sends.push_back({1, 7, {{3, 0, 4}}});
         window(c, 1, 0).receives.push_back({0, 7, {{5, 0, 4}}});
       }},
      {"sends out of order", "V207",
       [](Case& c) { std::swap(window(c, 1, 0).sends[0], window(c, 1, 0).sends[1]); }},
      {"window too large", "V208", [](Case& c) { c.frame.window_ops = 2; }},
      {"send to itself", "V209", [](Case& c) { window(c, 0, 0).sends[0].peer = 0; }},
      {"depends on a later window", "V210", [](Case& c) { window(c, 0, 0).depends_on = {2}; }},
      // Data flow.
      {"copy of two sizes", "V301", [](Case& c) { window(c, 0, 0).before.copies[0].to.run = 4; }},
      {"conversion of two sizes", "V301",
       [](Case& c) { window(c, 2, 2).before.converts[0].to.run = 8; }},
      {"source allocated", "V302", [](Case& c) { window(c, 0, 0).allocate.push_back(0); }},
      {"allocated twice", "V302", [](Case& c) { window(c, 2, 1).allocate.push_back(0); }},
      {"target never allocated", "V302", [](Case& c) { window(c, 0, 0).allocate.pop_back(); }},
      {"freed twice", "V303", [](Case& c) { window(c, 1, 1).free.push_back(6); }},
      {"target freed", "V303", [](Case& c) { window(c, 0, 1).free = {5}; }},
      {"aliased source freed", "V303", [](Case& c) { window(c, 0, 1).free = {4}; }},
      {"write before allocation", "V304",
       [](Case& c) {
         window(c, 1, 0).allocate = {6};
         window(c, 1, 1).allocate = {4, 5};
       }},
      {"read after free", "V305",
       [](Case& c) {
         window(c, 1, 0).free = {6, 5};
       }},
      {"read before arrival", "V306",
       [](Case& c) { window(c, 2, 0).after.copies[0].from.offset = 48; }},
      {"relay before arrival", "V306", [](Case& c) { window(c, 1, 0).receives.clear(); }},
      {"target read before it is written", "V306",
       [](Case& c) {
         std::swap(window(c, 2, 1).before, window(c, 2, 2).before);
         std::swap(window(c, 2, 1).allocate, window(c, 2, 2).allocate);
         window(c, 2, 1).allocate.push_back(3);
         window(c, 2, 2).allocate.pop_back();
       }},
      {"read of alignment", "V306",
       [](Case& c) {
         c.programs[1].storages[3].pieces.pop_back();
         c.source.devices[1].storages[1].shards.pop_back();
       }},
      {"send of what the same window receives", "V307",
       [](Case& c) {
         window(c, 1, 0).sends[0].slices[0] = {5, 0, 48};
       }},
      {"two writes of a phase into scratch", "V307",
       [](Case& c) {
         window(c, 1, 0).before.copies.push_back({{3, 0, 4}, {6, 44, 4}});
       }},
      {"two writes of a phase into a target", "V307",
       [](Case& c) {
         auto& copies = window(c, 0, 0).before.copies;
         copies.push_back(copies[0]);
       }},
      {"copy onto itself", "V307",
       [](Case& c) {
         window(c, 1, 0).before.copies.push_back({{5, 0, 4}, {5, 0, 4}});
       }},
      {"op duplicated in a later window", "V308",
       [](Case& c) { window(c, 0, 1).before = window(c, 0, 0).before; }},
      {"copy dropped", "V309", [](Case& c) { window(c, 0, 0).before.copies.clear(); }},
      {"fill dropped", "V309", [](Case& c) { window(c, 2, 1).after.fills.clear(); }},
      {"shifted by one element at the source", "V310",
       [](Case& c) { window(c, 0, 1).sends[0].slices[0].offset += 4; }},
      {"shifted by one element in scratch", "V310",
       [](Case& c) { window(c, 2, 0).after.copies[0].to.offset -= 4; }},
      {"wrong stride", "V310",
       [](Case& c) { window(c, 0, 1).sends[0].slices[0].dims[0].stride_bytes = 8; }},
      {"two rows swapped", "V310",
       [](Case& c) {
         auto& slices = window(c, 0, 1).sends[0].slices;
         slices = {{3, 20, 8}, {3, 4, 8}, {3, 36, 8, {{2, 16}}}};
       }},
      {"another state", "V310",
       [](Case& c) {
         auto& copies = window(c, 0, 0).before.copies;
         copies = {{{0, 0, 16}, {6, 0, 8, {{2, 16}}}},
                   {{1, 0, 16}, {5, 0, 8, {{2, 16}}}},
                   {{2, 0, 16}, {7, 0, 8, {{2, 16}}}}};
       }},
      {"another tensor", "V310",
       [](Case& c) {
         window(c, 0, 1).sends[0].slices[0].storage = 0;
         window(c, 0, 1).sends[0].slices[0] = {0, 0, 32};
       }},
      {"param cast from a moment", "V310",
       [](Case& c) { window(c, 2, 2).before.converts[0].from.storage = 1; }},
      {"alias of another storage", "V311",
       [](Case& c) { c.programs[0].storages[8].storage.alias_of = StorageId(0); }},
      {"alias of a target", "V311",
       [](Case& c) { c.programs[0].storages[8].storage.alias_of = StorageId(5); }},
      {"alias twice", "V311",
       [](Case& c) { c.programs[0].storages[5].storage.alias_of = StorageId(4); }},
      {"source overwritten", "V312",
       [](Case& c) {
         window(c, 0, 0).before.copies.push_back({{3, 0, 16}, {4, 0, 16}});
       }},
      {"source overwritten through its alias", "V312",
       [](Case& c) {
         window(c, 0, 1).before.copies.push_back({{4, 0, 16}, {8, 0, 16}});
       }},
      {"source freed before commit", "V313", [](Case& c) { window(c, 0, 1).free = {3}; }},
      {"element filled", "V314",
       [](Case& c) {
         window(c, 0, 0).before.copies.clear();
         window(c, 0, 0).before.fills = {{{5, 0, 8, {{2, 16}}, 3}}};
       }},
      {"write into alignment", "V315",
       [](Case& c) {
         window(c, 2, 1).after.copies.push_back({{0, 0, 8}, {3, 40, 8}});
       }},
      {"conversion of another dtype", "V316",
       [](Case& c) { window(c, 2, 2).before.converts[0].from_dtype = Dtype::Int32; }},
      {"cast to another dtype", "V316",
       [](Case& c) { window(c, 2, 2).before.converts[0].to_dtype = Dtype::Float16; }},
      // Memory.
      {"scratch too small", "V401",
       [](Case& c) { c.programs[1].storages[5].storage.size_bytes = 44; }},
      {"shifted past the end", "V401",
       [](Case& c) { window(c, 0, 0).before.copies[0].to.offset += 16; }},
      {"cut inside an element", "V402",
       [](Case& c) { window(c, 0, 1).sends[0].slices[0].offset += 2; }},
      {"scratch cut inside an element", "V402",
       [](Case& c) {
         window(c, 2, 1).after.copies[0].from.offset += 2;
         c.programs[2].storages[5].storage.size_bytes = 98;
         window(c, 2, 1).receives[0].slices = {{5, 48, 48}, {3, 0, 32}};
       }},
      {"more bytes than there are", "V404",
       [](Case& c) {
         window(c, 0, 1).sends[0].slices[0] = {3, 0, 32, {{3, 0}}};
       }},
  };
  for (const Fault& fault : faults) {
    Case bad = good_case();
    fault.plant(bad);
    const Report report = check(bad);
    INFO(fault.name << "\n" << show(report));
    CHECK(has(report, fault.rule));
  }
}

TEST_CASE("ranges out of bounds and shared ops end the check, whatever the field") {
  const Case good = good_case();
  const auto rule_of = [&](const std::function<void(ir::Schedule&)>& plant) {
    ir::Schedule schedule = flatten(good);
    plant(schedule);
    const Report report = verify(schedule, good.source, good.target);
    return report.ok() ? std::string() : report.findings[0].rule;
  };
  const auto window = [](ir::Schedule& s) -> ir::Window& { return s.programs[1].windows[0]; };
  const std::vector<std::function<ir::Range&(ir::Schedule&)>> ranges = {
      [&](ir::Schedule& s) -> ir::Range& { return window(s).sends; },
      [&](ir::Schedule& s) -> ir::Range& { return window(s).receives; },
      [&](ir::Schedule& s) -> ir::Range& { return window(s).allocate; },
      [&](ir::Schedule& s) -> ir::Range& { return window(s).free; },
      [&](ir::Schedule& s) -> ir::Range& { return window(s).depends_on; },
      [&](ir::Schedule& s) -> ir::Range& { return window(s).before.copies; },
      [&](ir::Schedule& s) -> ir::Range& { return window(s).before.fills; },
      [&](ir::Schedule& s) -> ir::Range& { return window(s).after.converts; },
      [&](ir::Schedule& s) -> ir::Range& { return s.programs[1].storages[0].pieces; },
      [&](ir::Schedule& s) -> ir::Range& { return s.programs[1].sends[0].slices; },
      [&](ir::Schedule& s) -> ir::Range& { return s.programs[1].slices[0].dims; },
      [&](ir::Schedule& s) -> ir::Range& { return s.programs[1].copies[0].to.dims; },
  };
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  for (const auto& range : ranges) {
    CHECK(rule_of([&](ir::Schedule& s) { range(s).first = kMost; }) == "V003");
    CHECK(rule_of([&](ir::Schedule& s) { range(s).count = kMost; }) == "V003");
    CHECK(rule_of([&](ir::Schedule& s) { range(s) = {kMost, kMost}; }) == "V003");
    CHECK(rule_of([&](ir::Schedule& s) { range(s).first = -1; }) == "V003");
    CHECK(rule_of([&](ir::Schedule& s) { range(s).count = -1; }) == "V003");
  }
  CHECK(rule_of([](ir::Schedule& s) {
          s.programs[1].windows[1].sends = s.programs[1].windows[0].sends;
        }) == "V009");
  CHECK(rule_of([](ir::Schedule& s) {
          s.programs[0].storages[0].dtype = static_cast<Dtype>(200);
        }) == "V004");
}

TEST_CASE("a stale plan is named by the input that differs") {
  const Case good = good_case();
  Options options;
  options.expected_digests = good.frame.digests;
  CHECK(check(good, options).ok());
  options.expected_digests->target_layout = "another strategy";
  options.expected_digests->model = "another model";
  options.expected_digests->topology.clear();
  const Report report = check(good, options);
  REQUIRE(report.findings.size() == 2);
  CHECK(report.findings[0].rule == "V101");
  CHECK(report.findings[0].message.find("another model") != std::string::npos);
  CHECK(report.findings[1].message.find("for another target") != std::string::npos);
}

TEST_CASE("a hole is one finding with tensor, state and box") {
  Case bad = good_case();
  window(bad, 0, 0).before.copies[0].from.lanes = 2;
  window(bad, 0, 0).before.copies[0].to.lanes = 2;
  const Report report = check(bad);
  INFO(show(report));
  REQUIRE(report.findings.size() == 1);
  const Diagnostic& hole = report.findings[0];
  CHECK(hole.rule == "V309");
  CHECK(hole.rank == RankId(0));
  CHECK(hole.tensor == "w");
  CHECK(hole.state == "exp_avg_sq");
  CHECK(hole.box == Box{{0, 2}, {0, 2}});
}

TEST_CASE("a wrong element names op, slice, and both places") {
  Case bad = good_case();
  window(bad, 0, 1).sends[0].slices[0].offset -= 4;  // columns [0, 2) instead of [1, 3)
  const Report report = check(bad);
  INFO(show(report));
  REQUIRE(report.findings.size() == 1);
  const Diagnostic& wrong = report.findings[0];
  CHECK(wrong.rule == "V310");
  CHECK(wrong.rank == RankId(1));
  CHECK(wrong.window == 2);
  CHECK(wrong.op == "receive 2 from rank 0, slice 0");
  CHECK(wrong.box == Box{{0, 4}, {1, 3}});
  CHECK(wrong.message.find("[0, 4) x [0, 2)") != std::string::npos);
}

// Two ranks, two messages each way of looking: `a` in window 0 and `b` in window 1 on rank 0.
Case crossed_case() {
  Layout source;
  source.tensors = {{"a", {4}}, {"b", {4}}};
  source.states = {{"param", {}, StateFollows::Param}};
  Layout target = source;
  const std::vector<Lane> lane = {{StateId(0), Dtype::Float32}};
  for (std::int32_t tensor = 0; tensor < 2; ++tensor) {
    const Storage storage = {source.tensors[static_cast<std::size_t>(tensor)].name,
                             lane,
                             4,
                             MemoryKind::Device,
                             {testing::contiguous_shard(tensor, {{0, 4}}, 0)}};
    if (tensor == 0) source.devices.push_back({DeviceId(0), {}});
    if (tensor == 0) target.devices.push_back({DeviceId(1), {}});
    source.devices[0].storages.push_back(storage);
    target.devices[0].storages.push_back(storage);
  }
  Case result = testing::declare(source, target, 2, 2);
  result.programs[0].windows = {{0, {}, {}, {}, {{1, 10, {{0, 0, 16}}}}, {}, {}, {}},
                                {1, {}, {}, {}, {{1, 11, {{1, 0, 16}}}}, {}, {}, {}}};
  result.programs[1].windows = {{0, {}, {0}, {}, {}, {{0, 10, {{0, 0, 16}}}}, {}, {}},
                                {1, {}, {1}, {}, {}, {{0, 11, {{1, 0, 16}}}}, {}, {}}};
  return result;
}

TEST_CASE("messages whose order is crossed between two ranks are a wait cycle") {
  CHECK(check(crossed_case()).ok());
  Case bad = crossed_case();
  std::swap(window(bad, 1, 0).receives, window(bad, 1, 1).receives);
  window(bad, 1, 0).allocate = {0, 1};
  window(bad, 1, 1).allocate = {};
  const Report report = check(bad);
  INFO(show(report));
  CHECK(has(report, "V204"));
  const Diagnostic& cycle = find(report, "V210");
  CHECK(cycle.message ==
        "rank 0 window 0 waits for rank 1 window 1 waits for rank 1 window 0 waits for rank 0 "
        "window 1 waits for rank 0 window 0");
}

TEST_CASE("a cycle over three ranks is found") {
  Layout empty;
  Case bad = testing::declare(empty, empty, 3, 2);
  // Rank r sends in window 0 what rank r+1 receives in window 1.
  for (std::int32_t rank = 0; rank < 3; ++rank) {
    bad.programs[static_cast<std::size_t>(rank)].windows = {
        {0, {}, {}, {}, {{(rank + 1) % 3, rank, {}}}, {}, {}, {}},
        {1, {}, {}, {}, {}, {{(rank + 2) % 3, (rank + 2) % 3, {}}}, {}, {}}};
  }
  const Report report = check(bad);
  INFO(show(report));
  CHECK(has(report, "V210"));
}

TEST_CASE("one rank's part alone is checked as far as it goes") {
  for (std::size_t rank = 0; rank < 3; ++rank) {
    Case part = good_case();
    part.programs = {part.programs[rank]};
    const Report report = check(part);
    INFO(show(report));
    CHECK(report.ok());
    CHECK_FALSE(report.complete);
  }
  Case part = good_case();
  part.programs = {part.programs[2]};
  part.programs[0].windows[1].after.copies.clear();
  CHECK(has(check(part), "V309"));
}

TEST_CASE("peak memory is held against the limit") {
  Options options;
  options.memory_limit = 272;
  CHECK(check(good_case(), options).ok());
  options.memory_limit = 271;
  const Report report = check(good_case(), options);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].rule == "V403");
  CHECK(report.findings[0].rank == RankId(0));
}

TEST_CASE("sources may be freed and overwritten once rollback is given up") {
  Case early = good_case();
  early.frame.ranks[0].rollback_until_window = 0;
  window(early, 0, 1).free = {3};
  CHECK(check(early).ok());
  window(early, 0, 1).free = {};
  // The same elements once more through the alias: legal after window 0.
  window(early, 0, 1).before.copies.push_back({{4, 0, 8}, {8, 0, 8}});
  const Report self = check(early);
  INFO(show(self));
  CHECK(has(self, "V307"));  // source and alias are the same bytes
  window(early, 0, 1).before.copies.clear();
  window(early, 0, 1).before.copies.push_back({{3, 0, 8}, {8, 0, 8}});
  CHECK(has(check(early), "V310"));
  // A source that is used up may be overwritten, one that is still to be read may not.
  Case reuse = good_case();
  reuse.frame.ranks[0].rollback_until_window = 0;
  window(reuse, 0, 1).after.copies.push_back({{4, 0, 16}, {3, 0, 16}});
  CHECK(check(reuse).ok());
  std::swap(window(reuse, 0, 1).after, window(reuse, 0, 1).before);
  CHECK(has(check(reuse), "V312"));
}

TEST_CASE("padding may be a copy of the last true row") {
  Case last_row = good_case();
  window(last_row, 2, 1).after.fills.clear();
  auto& copies = window(last_row, 2, 2).before.copies;
  copies.push_back({{3, 16, 8}, {3, 32, 8}});
  const Report report = check(last_row);
  INFO(show(report));
  CHECK(report.ok());
  CHECK(testing::interpret(flatten(last_row)).empty());
  copies[0].from.offset = 8;  // the row before
  CHECK(has(check(last_row), "V310"));
}

TEST_CASE("a value may be rounded once, not twice") {
  Case twice = good_case();
  testing::ProgramSpec& rank2 = twice.programs[2];
  const std::int32_t half = testing::add_scratch(rank2, 16);
  const std::int32_t single = testing::add_scratch(rank2, 32);
  twice.frame.num_windows = 6;
  rank2.windows.back().before.converts = {{{0, 0, 32}, {half, 0, 16}}};
  rank2.windows.back().allocate = {4, half, single};
  testing::WindowSpec widen;
  widen.number = 4;
  widen.before.copies = {{{half, 0, 16}, {4, 0, 16}}};
  rank2.windows.push_back(widen);
  CHECK(check(twice).ok());
  rank2.windows.back().before.copies.clear();
  rank2.windows.back().before.converts = {
      {{half, 0, 16}, {single, 0, 32}, Dtype::BFloat16, Dtype::Float32}};
  testing::WindowSpec narrow;
  narrow.number = 5;
  narrow.before.converts = {{{single, 0, 32}, {4, 0, 16}}};
  rank2.windows.push_back(narrow);
  CHECK(has(check(twice), "V316"));
}

TEST_CASE("findings of one rule are capped, the rest counted") {
  Case bad = good_case();
  for (testing::ProgramSpec& program : bad.programs) program.windows.clear();
  Options options;
  options.max_findings_per_rule = 2;
  const Report report = check(bad, options);
  CHECK(report.findings.size() == 4);  // V302 and V309
  // Targets: 4 storages on rank 0, 1 on rank 1, 5 on rank 2; the alias has no holes; v two pieces.
  CHECK(report.suppressed == (10 - 2) + (3 + 1 + 6 - 2));
}

TEST_CASE("hostile sizes end with a finding, not with the machine's patience") {
  Case bad = good_case();
  testing::ProgramSpec& rank1 = bad.programs[1];
  const std::int32_t huge = testing::add_scratch(rank1, std::int64_t{1} << 60);
  window(bad, 1, 0).allocate.push_back(huge);
  const std::vector<ir::SliceDim> torn = {{std::int64_t{1} << 50, 2}};
  window(bad, 1, 0).before.fills.push_back({{huge, 0, 1, torn}, 1});
  CHECK(has(check(bad), "V317"));
}

TEST_CASE("rule ids are unique and ascending") {
  for (std::size_t i = 1; i < kRules.size(); ++i) CHECK(kRules[i - 1].id < kRules[i].id);
}

}  // namespace
}  // namespace plan::verify
