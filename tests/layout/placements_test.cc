// Every case dumped from torch 2.11 (tests/golden/torch), and what the dumps do not show.
#include "libplan/layout/placements.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "libplan/base/error.h"
#include "libplan/base/files.h"
#include "libplan/base/json_tree.h"
#include "tests/layout/flat_content.h"

namespace plan {
namespace {

JsonDocument golden(const std::string& name) {
  const std::string path = std::string(std::getenv("PLAN_TEST_DATA")) + "/golden/torch/" + name;
  return parse_json(read_file(path), path);
}

std::vector<std::int64_t> numbers(const JsonCursor& list) {
  std::vector<std::int64_t> values;
  for (const JsonCursor& value : list.elements()) values.push_back(value.as_int64(0, INT64_MAX));
  return values;
}

struct Mesh {
  std::vector<std::int32_t> sizes;
  std::vector<std::int32_t> ranks;  // row-major
};

Mesh read_mesh(const JsonCursor& mesh) {
  Mesh read;
  for (const JsonCursor& size : mesh.at("shape").elements())
    read.sizes.push_back(size.as_int32(1, INT32_MAX));
  for (const JsonCursor& rank : mesh.at("ranks").elements())
    read.ranks.push_back(rank.as_int32(0, INT32_MAX));
  return read;
}

std::vector<Placement> read_placements(const JsonCursor& list) {
  std::vector<Placement> placements;
  for (const JsonCursor& item : list.elements()) {
    const std::string kind = item.at("t").as_string();
    Placement& placement = placements.emplace_back();
    if (kind == "P") {
      placement = {PlacementKind::Partial, 0, 1, item.at("op").as_string()};
    } else if (kind != "R") {
      placement.kind = kind == "SS" ? PlacementKind::StridedShard : PlacementKind::Shard;
      placement.dim = item.at("d").as_int32(-8, 8);
      if (kind == "SS") placement.split_factor = item.at("f").as_int64(1, INT64_MAX);
    }
  }
  return placements;
}

// Compares with a dumped rank; returns how many elements were compared one by one.
std::size_t compare(const JsonCursor& rank, const Dims& shape, const LocalContent& content) {
  CHECK(content.local_shape() == Dims(numbers(rank.at("ls"))));
  const std::optional<JsonCursor> runs = rank.find("runs");
  CHECK(content.empty() == !runs.has_value());
  if (runs) {
    std::vector<std::vector<Interval>> expected;
    for (const JsonCursor& dim : runs->elements()) {
      std::vector<Interval>& list = expected.emplace_back();
      for (const JsonCursor& run : dim.elements()) {
        const std::vector<std::int64_t> pair = numbers(run);
        list.push_back({pair.at(0), pair.at(0) + pair.at(1)});
      }
    }
    CHECK(content.runs == expected);
  }
  const std::optional<JsonCursor> flat = rank.find("flat");
  if (!flat) return 0;
  CHECK(test::flat_of(shape, content) == numbers(*flat));
  return flat->elements().size();
}

// The position in the mesh; the size of the mesh for a rank outside.
std::int32_t position_of(const Mesh& mesh, std::int32_t rank) {
  return static_cast<std::int32_t>(std::find(mesh.ranks.begin(), mesh.ranks.end(), rank) -
                                   mesh.ranks.begin());
}

ErrorCode refusal(const Dims& shape, std::int32_t axes, const std::vector<Placement>& placements,
                  const std::string& message) {
  try {
    checked_placements(shape, axes, placements, "tensor w");
  } catch (const Error& error) {
    CHECK_THAT(std::string(error.what()), Catch::StartsWith("tensor w: "));
    CHECK_THAT(std::string(error.what()), Catch::Contains(message));
    return error.code();
  }
  return ErrorCode::Executor;  // accepted
}

void check_dtensor_case(const JsonCursor& item, std::size_t& elements, std::size_t& refused) {
  const Dims shape(numbers(item.at("shape")));
  const Mesh mesh = read_mesh(item.at("mesh"));
  const std::vector<Placement> given =
      read_placements(item.at(item.find("placements_given") ? "placements_given" : "placements"));
  const std::int32_t axes = static_cast<std::int32_t>(mesh.sizes.size());
  if (item.find("refused") || item.find("expect")) {
    ++refused;
    if (item.find("expect") || item.at("name").as_string().find("_P") != std::string::npos) {
      CHECK(refusal(shape, axes, given, "mesh axis 0") == ErrorCode::Unsupported);
      CHECK(refusal(shape, axes, given, "Partial with reduce op " + given[0].reduce_op) ==
            ErrorCode::Unsupported);
    } else {
      CHECK(refusal(shape, axes, given, "found") == ErrorCode::BadInput);
    }
    return;
  }
  const std::vector<Placement> placements = checked_placements(shape, axes, given, "w");
  CHECK(placements == read_placements(item.at("placements")));
  std::size_t members = 0;
  for (const JsonCursor& rank : item.at("ranks").elements()) {
    const std::int32_t number = rank.at("r").as_int32(0, INT32_MAX);
    CAPTURE(number);
    const std::int32_t position = position_of(mesh, number);
    const std::optional<JsonCursor> stated = rank.find("c");
    CHECK(stated.has_value() == (static_cast<std::size_t>(position) < mesh.ranks.size()));
    if (!stated) continue;
    ++members;
    const std::vector<std::int32_t> coordinate = mesh_coordinate(mesh.sizes, position);
    CHECK(std::vector<std::int64_t>(coordinate.begin(), coordinate.end()) == numbers(*stated));
    elements += compare(rank, shape, dtensor_content(shape, mesh.sizes, placements, coordinate));
  }
  CHECK(members == mesh.ranks.size());
}

TEST_CASE("DTensor content equals what torch holds") {
  const JsonDocument document = golden("dtensor.json");
  std::size_t cases = 0, elements = 0, refused = 0;
  for (const JsonCursor& item : JsonCursor::root(document).at("cases").elements()) {
    CAPTURE(item.at("name").as_string());
    check_dtensor_case(item, elements, refused);
    ++cases;
  }
  CHECK(cases == 67);
  CHECK(refused == 6);
  CHECK(elements == 2589);
}

// The coordinate with FSDP2's axis replaced by the place among the sorted ranks of the group.
std::vector<std::int32_t> sorted_coordinate(const Mesh& mesh, std::int32_t position, int axis) {
  std::vector<std::int32_t> coordinate = mesh_coordinate(mesh.sizes, position);
  if (axis < 0) return coordinate;
  const std::size_t at = static_cast<std::size_t>(axis);
  std::int32_t place = 0;
  for (std::size_t other = 0; other < mesh.ranks.size(); ++other) {
    std::vector<std::int32_t> there = mesh_coordinate(mesh.sizes, static_cast<std::int32_t>(other));
    there[at] = coordinate[at];
    const bool same_group = there == coordinate;
    if (same_group && mesh.ranks[other] < mesh.ranks[static_cast<std::size_t>(position)]) ++place;
  }
  coordinate[at] = place;
  return coordinate;
}

void check_fsdp2_param(const JsonCursor& param, const std::vector<Mesh>& meshes, bool fsdp,
                       std::size_t& ranks) {
  const Dims shape(numbers(param.at("shape")));
  const std::optional<JsonCursor> listed = param.find("placements");
  for (const JsonCursor& rank : param.at("ranks").elements()) {
    const std::int32_t number = rank.at("r").as_int32(0, INT32_MAX);
    CAPTURE(number);
    const std::optional<JsonCursor> slice = rank.find("m");
    if (!slice) {
      if (!listed) {  // ignored by fully_shard: whole on the rank
        compare(rank, shape, fsdp2_content(shape, {1}, {Placement{}}, {0}));
        ++ranks;
      }
      continue;  // outside the mesh
    }
    const Mesh& mesh = meshes.at(static_cast<std::size_t>(slice->as_int32(0, INT32_MAX)));
    const std::vector<Placement> placements = checked_placements(
        shape, static_cast<std::int32_t>(mesh.sizes.size()), read_placements(*listed), "w");
    const std::int32_t position = position_of(mesh, number);
    REQUIRE(static_cast<std::size_t>(position) < mesh.ranks.size());
    if (fsdp) {
      check_fsdp2(shape, mesh.sizes, placements, "w");
      const std::vector<std::int32_t> coordinate =
          sorted_coordinate(mesh, position, fsdp2_axis(placements));
      compare(rank, shape, fsdp2_content(shape, mesh.sizes, placements, coordinate));
    } else {
      compare(
          rank, shape,
          dtensor_content(shape, mesh.sizes, placements, mesh_coordinate(mesh.sizes, position)));
    }
    ++ranks;
  }
}

TEST_CASE("FSDP2 content equals what torch holds") {
  const JsonDocument document = golden("fsdp2.json");
  std::size_t cases = 0, ranks = 0, refused = 0;
  for (const JsonCursor& item : JsonCursor::root(document).at("cases").elements()) {
    CAPTURE(item.at("name").as_string());
    ++cases;
    if (item.find("refused") || item.find("expect")) {
      ++refused;
      continue;  // "what FSDP2 refuses" below has the same inputs
    }
    std::vector<Mesh> meshes;
    for (const JsonCursor& mesh : item.at("mesh_defs").elements())
      meshes.push_back(read_mesh(mesh));
    for (const JsonCursor& param : item.at("params").elements()) {
      CAPTURE(param.at("name").as_string());
      check_fsdp2_param(param, meshes, item.find("fsdp").has_value(), ranks);
    }
  }
  CHECK(cases == 33);
  CHECK(refused == 3);
  CHECK(ranks > 700);
}

const Placement kReplicate{};
Placement shard(int dim) { return {PlacementKind::Shard, dim, 1, ""}; }
Placement strided(int dim, std::int64_t factor) {
  return {PlacementKind::StridedShard, dim, factor, ""};
}

TEST_CASE("what FSDP2 refuses") {
  // mlp_dim1_uneven_m3, scalar_param_m2, partial_param_2x2
  CHECK_THROWS_WITH(check_fsdp2({10, 8}, {3}, {shard(1)}, "w"),
                    "w: FSDP2 cuts dimension 1 only evenly, found extent 8 over 3 ranks");
  CHECK(refusal({}, 1, {shard(0)}, "0 dimensions") == ErrorCode::BadInput);
  CHECK(refusal({4, 6}, 2, {shard(0), {PlacementKind::Partial, 0, 1, "sum"}},
                "mesh axis 1: expected a Shard or Replicate, found Partial with reduce op sum") ==
        ErrorCode::Unsupported);
  // 11 columns over 2 are 6 and 5: the first cut in two is even, the second not.
  CHECK_THROWS_WITH(check_fsdp2({3, 11}, {2, 2}, {strided(1, 2), shard(1)}, "w"),
                    Catch::Contains("found extent 5 over 2 ranks"));
  CHECK_THROWS_WITH(check_fsdp2({8}, {2, 2}, {shard(0), shard(0)}, "w"),
                    "w: mesh axis 0: FSDP2 places SS(0,2) there, found S(0)");
  CHECK_THROWS_WITH(check_fsdp2({8}, {2, 2}, {strided(0, 4), shard(0)}, "w"),
                    Catch::Contains("FSDP2 places SS(0,2) there, found SS(0,4)"));
  CHECK_THROWS_WITH(check_fsdp2({8, 8}, {2, 2}, {strided(0, 2), shard(1)}, "w"),
                    Catch::Contains("FSDP2 places S(0) there"));
  CHECK_NOTHROW(check_fsdp2({8}, {2, 2}, {kReplicate, kReplicate}, "w"));
}

TEST_CASE("strided tails: distribute_tensor and FSDP2 disagree") {
  const std::vector<Placement> placements{strided(0, 2), shard(0)};
  CHECK(dtensor_content({7}, {3, 2}, placements, {2, 0}).runs[0] == std::vector<Interval>{{6, 7}});
  CHECK(fsdp2_content({7}, {3, 2}, placements, {2, 0}).empty());
  CHECK(fsdp2_content({7}, {3, 2}, placements, {2, 1}).runs[0] == std::vector<Interval>{{6, 7}});
}

TEST_CASE("sizes at the edge") {
  const std::int64_t huge = std::int64_t{1} << 62;
  const LocalContent last = dtensor_content({huge}, {INT32_MAX}, {shard(0)}, {INT32_MAX - 1});
  CHECK(last.runs[0].back().end == huge);
  CHECK(dtensor_content({3}, {INT32_MAX}, {shard(0)}, {INT32_MAX - 1}).empty());
  CHECK_THROWS_WITH(dtensor_content({huge}, {2}, {strided(0, huge / 2)}, {0}),
                    Catch::Contains("at most 65536 runs"));
  CHECK(dtensor_content({4}, {2}, {strided(0, INT64_MAX)}, {1}).empty());
  CHECK(refusal({4}, 1, {strided(0, 0)}, "positive split factor") == ErrorCode::BadInput);
  CHECK(refusal({4}, 1, {shard(-2)}, "S(-2)") == ErrorCode::BadInput);
  CHECK(refusal({4}, 1, {shard(1)}, "S(1)") == ErrorCode::BadInput);
}

TEST_CASE("placements as text") {
  for (const char* text : {"R", "S(0)", "S(-1)", "SS(0,2)", "SS(-2,64)", "P(sum)"}) {
    CHECK(to_string(parse_placement(text, "x")) == text);
  }
  CHECK(parse_placement("SS(1, 4)", "x") == strided(1, 4));
  for (const char* text : {"", "r", "S", "S()", "S(0", "S(x)", "S(0))", "S(99999999999)", "SS(0)",
                           "SS(0,)", "SS(,2)", "Shard(0)", "P()", "R "}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(parse_placement(text, "x"), Catch::StartsWith("x: expected a placement"));
  }
}

}  // namespace
}  // namespace plan
