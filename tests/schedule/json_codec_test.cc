#include "libplan/schedule/json_codec.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "libplan/base/error.h"
#include "libplan/schedule/canonical.h"
#include "tests/schedule/sample_schedules.h"

namespace plan {
namespace {

std::string to_json(const ir::Schedule& schedule) {
  std::ostringstream stream;
  write_json(schedule, stream);
  return stream.str();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// The message of reading a plan in which `from` became `to`.
std::string error_of(const std::string& from, const std::string& to) {
  try {
    read_json(replaced(to_json(every_field()), from, to), "p.json");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::BadInput);
    return error.what();
  }
  return "no error";
}

TEST_CASE("JSON round trips are exact") {
  for (const ir::Schedule& schedule : {every_field(), four_by_four(), ir::Schedule{}}) {
    const std::string text = to_json(schedule);
    const ir::Schedule read = read_json(text, "p.json");
    CHECK(read == schedule);
    CHECK(to_json(read) == text);
  }
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    const ir::Schedule schedule = random_schedule(seed);
    CHECK(read_json(to_json(schedule), "p.json") == schedule);
  }
}

TEST_CASE("the JSON form is laid out for people") {
  ir::Schedule schedule = four_by_four();
  schedule.request = R"({"switch":1})";
  const std::string digest_text = digest(schedule);
  CHECK(to_json(schedule) == R"({
 "format": "libplan-schedule",
 "version": 1,
 "digest": ")" + digest_text + R"(",
 "algorithm": "direct",
 "window_ops": 256,
 "num_windows": 1,
 "digests": {
  "model": "",
  "source_layout": "",
  "target_layout": "",
  "topology": ""
 },
 "request": {"switch": 1},
 "ranks": [
  {"rank": 0, "worker": 0, "node": 0, "is_source": true, "is_target": false, "rollback_until_window": -1},
  {"rank": 1, "worker": 1, "node": 0, "is_source": false, "is_target": true, "rollback_until_window": -1}
 ],
 "states": [
  {"id": 0, "name": "param"}
 ],
 "tensors": [
  {"id": 0, "name": "w", "shape": [4, 4]}
 ],
 "programs": [
  {
   "rank": 0,
   "storages": [
    {"id": 0, "role": "source", "memory": "device", "dtype": "fp32", "size_bytes": 64, "alignment_bytes": 256, "binding_key": "w", "state": 0, "pieces": [
     {"tensor": 0, "box": [[0, 4], [0, 4]], "offset_elems": 0, "strides_elems": [4, 1]}
    ]}
   ],
   "windows": [
    {
     "number": 0,
     "sends": [
      {"to_rank": 1, "message": 0, "slices": [
       {"storage": 0, "offset_bytes": 32, "run_bytes": 8, "dims": [{"count": 2, "stride_bytes": 16}]}
      ]}
     ]
    }
   ]
  },
  {
   "rank": 1,
   "storages": [
    {"id": 0, "role": "target", "memory": "device", "dtype": "fp32", "size_bytes": 16, "alignment_bytes": 256, "binding_key": "w", "state": 0, "pieces": [
     {"tensor": 0, "box": [[2, 4], [0, 2]], "offset_elems": 0, "strides_elems": [2, 1]}
    ]}
   ],
   "windows": [
    {
     "number": 0,
     "allocate": [0],
     "receives": [
      {"from_rank": 0, "message": 0, "slices": [
       {"storage": 0, "offset_bytes": 0, "run_bytes": 16}
      ]}
     ]
    }
   ]
  }
 ]
}
)");
}

TEST_CASE("layout, key order and shared pieces do not change what is read") {
  const std::string text = to_json(every_field());
  CHECK(read_json(
            replaced(text, "\"lanes\": 2, \"offset_bytes\": 0", "\"offset_bytes\":0,\"lanes\":2"),
            "p.json") == every_field());
  // Pieces written out where the writer refers to an equal list.
  CHECK(read_json(replaced(text, "\"same_pieces_as\": 0",
                           "\"pieces\": [{\"tensor\": 0, \"box\": [[0, 4], [0, 4]], "
                           "\"offset_elems\": 0, \"strides_elems\": [4, 1]}]"),
                  "p.json") == every_field());
}

TEST_CASE("the request may be laid out anew, and its numbers keep their spelling") {
  const std::string text = to_json(every_field());
  CHECK_THAT(text, Catch::Contains("1.50e-3"));
  CHECK_THAT(text, Catch::Contains("18446744073709551615"));
  CHECK(read_json(replaced(text, "\"hidden\": 8", "\"hidden\"  :\n8"), "p.json") == every_field());
}

TEST_CASE("a request that is no compact JSON object is refused when writing") {
  const auto writing = [](const std::string& request) {
    ir::Schedule schedule = four_by_four();
    schedule.request = request;
    return to_json(schedule);
  };
  CHECK_THROWS_WITH(writing("{\"a\": 1}"), Catch::Contains("expected compact JSON"));
  CHECK_THROWS_WITH(writing("[1]"), Catch::Contains("expected a JSON object, found a list"));
  CHECK_THROWS_WITH(writing("{\"a\":"), Catch::Contains("expected a JSON object, found: "));
  CHECK_THROWS_WITH(writing("{\"a\":1,\"a\":1}"), Catch::Contains("given twice"));
}

TEST_CASE("an edited plan is refused by its digest") {
  CHECK_THAT(error_of("\"message\": 7", "\"message\": 8"),
             Catch::Contains("/digest") && Catch::Contains("plan digest: expected \"") &&
                 Catch::Contains("the plan was edited or damaged"));
  CHECK_THAT(error_of("\"hidden\": 8", "\"hidden\": 9"), Catch::Contains("plan digest"));
  CHECK_THAT(error_of("\"algorithm\": \"p", "\"algorithm\": \"P"), Catch::Contains("plan digest"));
}

TEST_CASE("wrong content of a JSON plan is named with its place") {
  CHECK_THAT(error_of("\"version\": 1", "\"version\": 7"),
             Catch::Contains("p.json:/version (line 3, column 13): expected version 1, found 7"));
  CHECK_THAT(error_of("libplan-schedule", "other"), Catch::Contains("expected the format"));
  CHECK_THAT(error_of("\"window_ops\"", "\"window_op\""),
             Catch::Contains("unknown key \"window_op\"; the nearest known key is \"window_ops\""));
  CHECK_THAT(error_of("\"run_bytes\": 8", "\"run_byte\": 8"),
             Catch::Contains("p.json:/programs/0/windows/0/before/copies/0/from/run_byte"));
  CHECK_THAT(
      error_of("\"storage\": 6, \"offset_bytes\": 80", "\"storage\": -6, \"offset_bytes\": 80"),
      Catch::Contains("expected 0 to 2147483647, found -6"));
  CHECK_THAT(error_of("\"role\": \"opaque\"", "\"role\": \"opak\""),
             Catch::Contains("/programs/0/storages/7/role") && Catch::Contains("\"scratch\" or"));
  CHECK_THAT(error_of("\"memory\": \"host\"", "\"memory\": \"ram\""),
             Catch::Contains("expected \"device\", \"host\" or \"file\""));
  CHECK_THAT(error_of("\"dtype\": \"bf16\"", "\"dtype\": \"bfloat16\""),
             Catch::Contains("expected a dtype such as"));
  CHECK_THAT(error_of("\"id\": 4", "\"id\": 5"), Catch::Contains("expected 4"));
  CHECK_THAT(error_of("\"same_pieces_as\": 0", "\"same_pieces_as\": 1"),
             Catch::Contains("expected the id of an earlier storage"));
  CHECK_THAT(error_of("[[0, 4], [0, 4]]", "[[0, 4], [0, 4, 8]]"),
             Catch::Contains("expected an interval [begin, end], found 3 numbers"));
  CHECK_THAT(error_of("0xffffffffffffffff", "0xfffffffffffffffff"),
             Catch::Contains("of at most 16 digits"));
  CHECK_THAT(error_of("0xffffffffffffffff", "ff"), Catch::Contains("expected a pattern"));
  CHECK_THAT(error_of("\"message\": 7,", "\"message\": 7, \"message\": 7,"),
             Catch::Contains("given twice"));
  // What the types allow but the rules do not comes from validate(), with the file's name.
  CHECK_THAT(
      error_of("\"storage\": 6, \"offset_bytes\": 80", "\"storage\": 60, \"offset_bytes\": 80"),
      Catch::Contains("p.json: rank 0, window 0, before copies, entry 1, to: expected one of "
                      "the 9 storages, found storage 60"));
}

TEST_CASE("another version is named even if its programs look different") {
  const std::string text = replaced(to_json(every_field()), "\"storages\"", "\"stores\"");
  CHECK_THROWS_WITH(read_json(replaced(text, "\"version\": 1", "\"version\": 7"), "p.json"),
                    Catch::Contains("expected version 1, found 7"));
  CHECK_THROWS_WITH(read_json(text, "p.json"), Catch::Contains("unknown key \"stores\""));
}

TEST_CASE("every truncation of a JSON plan is unreadable") {
  const std::string text = to_json(four_by_four());
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    try {
      read_json(std::string_view(text).substr(0, length), "p.json");
      FAIL("accepted " << length << " bytes");
    } catch (const Error& error) {
      if (error.code() != ErrorCode::Unreadable) FAIL(error.what());
    }
  }
}

}  // namespace
}  // namespace plan
