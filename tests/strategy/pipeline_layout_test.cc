#include "libplan/strategy/pipeline_layout.h"

#include <catch2/catch.hpp>

namespace plan {
namespace {

ExpandedLayout expand(const std::string& json) {
  return expand_pipeline_layout(parse_json(json, "layout").root);
}

TEST_CASE("layouts expand into positions") {
  struct Row {
    std::string json;
    std::string positions;
  };
  const std::vector<Row> table{
      {R"("Ettt|ttL")", "Ettt|ttL"},
      {R"("E,t*3|tt,L")", "Ettt|ttL"},
      {R"("Et*12|t*12|L")", "Etttttttttttt|tttttttttttt|L"},
      {R"("Et|(tt|)*3,m|L")", "Et|tt|tt|tt|m|L"},
      {R"("E|(t*2|)*2L")", "E|tt|tt|L"},
      {R"("E|*2L")", "E||L"},
      {R"("Et*0L")", "EL"},
      {R"("(Et)*0tL")", "tL"},
      {R"("")", ""},
      {R"("t||t")", "t||t"},
      {R"([["embedding", "Decoder ", " MTP"], [], ["LOSS"]])", "Etm||L"},
  };
  for (const Row& row : table) {
    CAPTURE(row.json);
    const ExpandedLayout layout = expand(row.json);
    REQUIRE(std::holds_alternative<std::vector<std::string>>(layout));
    CHECK(join_pipeline_layout(std::get<0>(layout)) == row.positions);
  }
}

TEST_CASE("wrong layouts say what is wrong") {
  struct Row {
    std::string json;
    std::string message;
  };
  const std::vector<Row> table{
      {R"("Et|tdL")", "unknown character \"d\" at position 5"},
      {R"("E t|L")", "unknown character \" \" at position 2"},
      {R"("Et*|L")", "unknown character \"*\" at position 3"},
      {R"("((t)*2|)*2")", "unknown character \"(\""},
      {R"("(t|L")", "unknown character \"(\" at position 1"},
      {R"("()*3")", "unknown character \"(\""},
      {R"("t*2*3")", "unknown character \"*\" at position 4"},
      {R"("*3")", "unknown character \"*\" at position 1"},
      {R"("e|t|L")", "unknown character \"e\""},
      {"\"E\xC3\xA4L\"", "at position 2"},
      {R"("t*99999999999999999999999")", "at most 1048576 letters"},
      {R"("(t*1000000|)*1000000")", "at most 1048576 letters"},
      {R"([])", "empty list"},
      {R"([["decoder"], 3])", "expected a list of lists, found 3 as stage 1"},
      {R"(["Ett", "ttL"])", "expected a list of lists"},
      {R"([["embedding", "head"]])", "found the string \"head\" in stage 0"},
      {R"([["embedding"], [7]])", "found 7 in stage 1"},
  };
  for (const Row& row : table) {
    CAPTURE(row.json);
    const ExpandedLayout layout = expand(row.json);
    REQUIRE(std::holds_alternative<LayoutFault>(layout));
    CHECK_THAT(std::get<1>(layout).message, Catch::Contains(row.message));
  }
}

}  // namespace
}  // namespace plan
