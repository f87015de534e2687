#include "libplan/schedule/flatbuffers_codec.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "libplan/base/error.h"
#include "libplan/schedule/canonical.h"
#include "libplan/schedule/json_codec.h"
#include "tests/schedule/sample_schedules.h"

namespace plan {
namespace {

std::string error_of(const std::string& bytes, ErrorCode code) {
  try {
    read_flatbuffers(bytes, "p.fb");
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "no error";
}

TEST_CASE("binary round trips are exact") {
  for (const ir::Schedule& schedule : {every_field(), four_by_four(), ir::Schedule{}}) {
    const std::string bytes = write_flatbuffers(schedule);
    CHECK(is_flatbuffers(bytes));
    CHECK(read_flatbuffers(bytes) == schedule);
    CHECK(write_flatbuffers(read_flatbuffers(bytes)) == bytes);
    std::ostringstream stream;
    write_flatbuffers(schedule, stream);
    CHECK(stream.str() == bytes);
  }
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    const ir::Schedule schedule = random_schedule(seed);
    CHECK(read_flatbuffers(write_flatbuffers(schedule)) == schedule);
  }
}

TEST_CASE("the binary form and JSON say the same") {
  const auto json_of = [](const ir::Schedule& schedule) {
    std::ostringstream stream;
    write_json(schedule, stream);
    return stream.str();
  };
  const std::string json = json_of(every_field());
  const std::string bytes = write_flatbuffers(read_json(json, "p.json"));
  CHECK(bytes == write_flatbuffers(every_field()));
  CHECK(json_of(read_flatbuffers(bytes)) == json);
}

TEST_CASE("bytes at any address can be read") {
  const std::string bytes = write_flatbuffers(every_field());
  for (std::size_t shift = 1; shift < 8; ++shift) {
    const std::string moved = std::string(shift, 'x') + bytes;
    CHECK(read_flatbuffers(std::string_view(moved).substr(shift)) == every_field());
  }
}

TEST_CASE("a rank reads its own program, and the digest of the whole plan") {
  const ir::Schedule schedule = every_field();
  std::string bytes = write_flatbuffers(schedule);
  for (const std::int32_t rank : {0, 1, 2}) {
    const PlanPart part = read_flatbuffers_part(bytes, RankId(rank));
    CHECK(part.schedule == ir::part_of_rank(schedule, RankId(rank)));
    CHECK(part.plan_digest == digest(schedule));
  }
  CHECK_THROWS_WITH(read_flatbuffers_part(bytes, RankId(3)), Catch::Contains("found rank 3"));
  // Damage in another rank's program does not matter to this one.
  bytes[bytes.size() - 40] ^= 1;
  CHECK_NOTHROW(read_flatbuffers_part(bytes, RankId(0)));
  CHECK_THROWS_WITH(read_flatbuffers_part(bytes, RankId(2)),
                    Catch::Contains("rank 2: program digest: expected") &&
                        Catch::Contains("the plan was edited or damaged"));
}

TEST_CASE("a plan with fewer programs than ranks goes through both forms") {
  const ir::Schedule part = ir::part_of_rank(every_field(), RankId(1));
  CHECK(read_flatbuffers(write_flatbuffers(part)) == part);
}

TEST_CASE("damage to the frame is named") {
  const std::string bytes = write_flatbuffers(four_by_four());
  const auto with = [&](std::size_t at, char value) {
    std::string changed = bytes;
    changed[at] = value;
    return changed;
  };
  CHECK_THAT(error_of(with(0, 'X'), ErrorCode::Unreadable),
             Catch::Contains("p.fb: expected a plan in binary form"));
  CHECK_THAT(error_of(with(8, 7), ErrorCode::BadInput),
             Catch::Contains("expected version 1, found 7"));
  CHECK_THAT(error_of(with(20, 1), ErrorCode::Unreadable),
             Catch::Contains("the plan is truncated"));
  CHECK_THAT(error_of(with(30, 1), ErrorCode::Unreadable),
             Catch::Contains("expected an index inside the file"));
  CHECK_THAT(error_of(with(40, 1), ErrorCode::BadInput), Catch::Contains("plan index digest"));
  CHECK_THAT(error_of(bytes + '\0', ErrorCode::Unreadable), Catch::Contains("bytes, found"));
  CHECK_THAT(error_of("", ErrorCode::Unreadable), Catch::Contains("found 0 other bytes"));
}

TEST_CASE("every truncation and every changed byte of a binary plan is refused") {
  const std::string bytes = write_flatbuffers(every_field());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    try {
      read_flatbuffers(std::string_view(bytes).substr(0, length));
      FAIL("accepted " << length << " bytes");
    } catch (const Error& error) {
      if (error.code() != ErrorCode::Unreadable) FAIL(error.what());
    }
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] ^= 0x10;
    CHECK_THROWS_AS(read_flatbuffers(changed), Error);
  }
}

}  // namespace
}  // namespace plan
