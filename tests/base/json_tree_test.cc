#include "libplan/base/json_tree.h"

#include <catch2/catch.hpp>

namespace plan {
namespace {

std::string error_of(const std::string& text, void (*read)(const JsonCursor&)) {
  const JsonDocument document = parse_json(text, "f.json");
  try {
    read(JsonCursor::root(document));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("values remember line and column") {
  const JsonDocument document =
      parse_json("[\n  {\"a\": 12, \"b\" : [true,  \"x\"]},\n 3]", "f.json");
  const JsonNode& object = document.root.elements[0];
  CHECK(object.position.line == 2);
  CHECK(object.position.column == 3);
  CHECK(object.key_positions[1].column == 13);
  CHECK(object.find("a")->position.column == 9);
  CHECK(object.find("b")->elements[1].position.column == 27);
  CHECK(document.root.elements[1].position.line == 3);
  CHECK(document.root.elements[1].position.column == 2);
}

TEST_CASE("errors name pointer, place, required and found") {
  CHECK(error_of("{\"list\": [1, \"8\"]}", [](const JsonCursor& c) {
          c.at("list").elements()[1].as_int32(1, 9);
        }) == "f.json:/list/1 (line 1, column 14): expected an integer, found the string \"8\"");
  CHECK(error_of("{\"size\": -2}", [](const JsonCursor& c) { c.at("size").as_int32(1, 9); }) ==
        "f.json:/size (line 1, column 10): expected 1 to 9, found -2");
  CHECK(
      error_of("{\"sizee\": 2}",
               [](const JsonCursor& c) {
                 c.expect_object({"size", "name"});
               }) ==
      "f.json:/sizee (line 1, column 2): unknown key \"sizee\"; the nearest known key is \"size\"");
  CHECK(error_of("{}", [](const JsonCursor& c) { c.at("size"); }) ==
        "f.json: (line 1, column 1): required key \"size\" is missing");
  CHECK(error_of("{\"a\":1,\n\"a\":1}", [](const JsonCursor&) {}) ==
        "f.json:/a (line 2, column 1): the key is given twice, first at line 1, column 2; keep one "
        "of them");
}

TEST_CASE("integers are told from reals and from what does not fit") {
  const JsonDocument document =
      parse_json("[8, 8.0, 1e9, 9223372036854775808, 99999999999999999999999]", "f");
  CHECK(document.root.elements[0].kind == JsonKind::Integer);
  CHECK(document.root.elements[1].kind == JsonKind::Real);
  CHECK(document.root.elements[2].kind == JsonKind::Real);
  CHECK(document.root.elements[3].kind == JsonKind::BigInteger);
  CHECK(document.root.elements[4].kind == JsonKind::BigInteger);
}

TEST_CASE("text that is no JSON, too deep or too long is unreadable") {
  for (const char* text :
       {"", "[1,]", "{'a':1}", "[NaN]", "[01]", "[1] x", "{\"a\" 1}", "[\"\xff\"]", "[1"}) {
    CAPTURE(text);
    try {
      parse_json(text, "f.json");
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::Unreadable);
    }
  }
  CHECK_THROWS_AS(parse_json(std::string(65, '[') + std::string(65, ']'), "f"), Error);
  CHECK_NOTHROW(parse_json(std::string(64, '[') + std::string(64, ']'), "f"));
  CHECK_THROWS_AS(parse_json("[1,2,3]", "f", {.max_bytes = 4}), Error);
}

TEST_CASE("a byte order mark is skipped and reported") {
  CHECK(parse_json("\xEF\xBB\xBF[1]", "f").has_byte_order_mark);
}

TEST_CASE("compact text keeps key order and the spelling of numbers") {
  const auto compact = [](const std::string& text) {
    return to_compact_json(parse_json(text, "f").root);
  };
  CHECK(compact(" { \"b\" : [ 1 , 2.50e-3 , 18446744073709551616 ],\n \"a\" : { } , \"c\":[] } ") ==
        "{\"b\":[1,2.50e-3,18446744073709551616],\"a\":{},\"c\":[]}");
  CHECK(compact("[null,true,false,\"\\u00e9\\u0001\\/\"]") ==
        "[null,true,false,\"\xC3\xA9\\u0001/\"]");
  const std::string once = compact("{\"k\": [-1, 1E9, \"\\\"\"]}");
  CHECK(compact(once) == once);
}

TEST_CASE("UTF-8 is told from other bytes") {
  for (const char* good : {"", "abc", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80",
                           "\xEF\xBF\xBF", "\xF4\x8F\xBF\xBF", "\xED\x9F\xBF"}) {
    CHECK(is_utf8(good));
  }
  for (const char* bad :
       {"\x80", "\xC3", "\xC3(", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
        "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80", "a\xE2\x82"}) {
    CHECK_FALSE(is_utf8(bad));
  }
}

TEST_CASE("elements of a streamed array are handed over with their places, and not kept") {
  std::vector<std::string> seen;
  const JsonStream stream{"/list", [&](const JsonCursor& cursor) {
                            seen.push_back(cursor.pointer() + "=" + to_compact_json(cursor.node()));
                          }};
  const JsonDocument document = parse_json(
      "{\"list\": [1, {\"list\": [2]}, [3]], \"other\": {\"list\": [4]}}", "f", {}, stream);
  CHECK(seen == std::vector<std::string>{"/list/0=1", "/list/1={\"list\":[2]}", "/list/2=[3]"});
  CHECK(to_compact_json(document.root) == "{\"list\":[],\"other\":{\"list\":[4]}}");
}

TEST_CASE("errors inside streamed elements name pointer and place") {
  const JsonStream stream{"/list", [](const JsonCursor& cursor) { cursor.at("n").as_bool(); }};
  CHECK_THROWS_WITH(parse_json("{\"list\": [\n{\"n\": true},\n{\"n\": 1}]}", "f", {}, stream),
                    "f:/list/1/n (line 3, column 7): expected true or false, found 1");
}

}  // namespace
}  // namespace plan
