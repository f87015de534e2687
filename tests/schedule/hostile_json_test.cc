// Texts that no writer makes: nesting, huge numbers, floods of small values.
#include <catch2/catch.hpp>
#include <sstream>

#include "libplan/base/error.h"
#include "libplan/schedule/json_codec.h"
#include "tests/schedule/sample_schedules.h"

namespace plan {
namespace {

std::string to_json(const ir::Schedule& schedule) {
  std::ostringstream stream;
  write_json(schedule, stream);
  return stream.str();
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = to_json(every_field());
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

ErrorCode code_of(const std::string& text) {
  try {
    read_json(text, "p.json");
  } catch (const Error& error) {
    INFO(std::string(error.what()).substr(0, 300));
    CHECK(std::string(error.what()).size() < 1000);
    return error.code();
  }
  FAIL("accepted");
  return ErrorCode::Usage;
}

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST_CASE("deep nesting is unreadable") {
  CHECK(code_of(repeated("[", 1'000'000)) == ErrorCode::Unreadable);
  CHECK(code_of(repeated("{\"a\":", 1'000'000)) == ErrorCode::Unreadable);
  CHECK(code_of(with("\"hidden\": 8", "\"hidden\": " + repeated("[", 100'000) +
                                          repeated("]", 100'000))) == ErrorCode::Unreadable);
  CHECK(code_of(with("\"box\": [[0, 4], [0, 4]]",
                     "\"box\": " + repeated("[", 40) + repeated("]", 40))) == ErrorCode::BadInput);
}

TEST_CASE("numbers that no int64 or int32 holds are refused") {
  for (const char* number : {"9223372036854775808", "-1", "1e3", "1.5", "4294967296e0",
                             "999999999999999999999999999999", "\"8\"", "[8]", "{}", "true"}) {
    INFO(number);
    const std::string value = number;
    CHECK(code_of(with("\"run_bytes\": 8", "\"run_bytes\": " + value)) == ErrorCode::BadInput);
    CHECK(code_of(with("\"offset_bytes\": 80", "\"offset_bytes\": " + value)) ==
          ErrorCode::BadInput);
    CHECK(code_of(with("\"window_ops\": 8", "\"window_ops\": " + value)) == ErrorCode::BadInput);
    CHECK(code_of(with("\"worker\": 5", "\"worker\": " + value)) == ErrorCode::BadInput);
    CHECK(code_of(with("\"depends_on\": [0]", "\"depends_on\": [" + value + "]")) ==
          ErrorCode::BadInput);
    CHECK(code_of(with("\"shape\": [4, 4]", "\"shape\": [4, " + value + "]")) ==
          ErrorCode::BadInput);
  }
  for (const char* number : {"2147483648", "9223372036854775807"}) {
    const std::string value = number;
    CHECK(code_of(with("\"worker\": 5", "\"worker\": " + value)) == ErrorCode::BadInput);
    CHECK(code_of(with("\"run_bytes\": 8", "\"run_bytes\": " + value)) == ErrorCode::BadInput);
    CHECK(code_of(with("{\"count\": 2,", "{\"count\": " + value + ",")) == ErrorCode::BadInput);
    CHECK(code_of(with("\"alignment_bytes\": 256", "\"alignment_bytes\": " + value)) ==
          ErrorCode::BadInput);
  }
}

TEST_CASE("floods of small values are refused or read, never followed by a larger allocation") {
  CHECK(code_of(with("\"depends_on\": [0]", "\"depends_on\": [0" + repeated(",0", 100'000) +
                                                ",9]")) == ErrorCode::BadInput);
  CHECK(code_of(with("\"shape\": [4, 4]", "\"shape\": [4" + repeated(",4", 100'000) + "]")) ==
        ErrorCode::BadInput);
  CHECK(code_of(with("\"programs\": [", "\"programs\": [" + repeated("{},", 1000))) ==
        ErrorCode::BadInput);
  CHECK(code_of(with("\"programs\": [", "\"programs\": [7, [], null, ")) == ErrorCode::BadInput);
}

TEST_CASE("bytes that are no UTF-8 are unreadable") {
  CHECK(code_of(with("\"binding_key\": \"rng\"", "\"binding_key\": \"\xFF\"")) ==
        ErrorCode::Unreadable);
  CHECK(code_of(std::string("\0\0\0\0", 4)) == ErrorCode::Unreadable);
}

}  // namespace
}  // namespace plan
