#include "libplan/strategy/check_format.h"

#include <catch2/catch.hpp>

#include "libplan/base/json_tree.h"
#include "tests/strategy/check_cases.h"

namespace plan::check {
namespace {

std::vector<Diagnostic> sample() {
  Diagnostic stages{"S302",
                    Severity::Error,
                    0,
                    "a\"b",
                    "/0/pipeline_model_parallel_size",
                    4,
                    91,
                    "94 layers, <8>: 5 %",
                    "use 2\nor 47"};
  Diagnostic note{"S122", Severity::Note, {}, "", "", 1, 1, "one entry only", ""};
  Diagnostic warning{"S651",    Severity::Warning, 2, "", "/2/sequence_parallel", 7, 3,
                     "tp is 1", "drop the key"};
  return {note, stages, warning};
}

TEST_CASE("text is what compilers write") {
  CHECK(format_findings(sample(), "list.json", Format::Text) ==
        "list.json:1:1: note: one entry only [S122]\n"
        "list.json:4:91: error: entry 0 \"a\\\"b\": 94 layers, <8>: 5 % [S302]\n"
        "  fix: use 2\nor 47\n"
        "list.json:7:3: warning: entry 2: tp is 1 [S651]\n"
        "  fix: drop the key\n"
        "list.json: 1 error, 1 warning, 1 note\n");
  CHECK(format_findings({}, "list.json", Format::Text) ==
        "list.json: 0 errors, 0 warnings, 0 notes\n");
}

TEST_CASE("json has the documented keys") {
  const JsonDocument document =
      parse_json(format_findings(sample(), "list.json", Format::Json), "out");
  const auto rows = JsonCursor::root(document).at("diagnostics").elements();
  REQUIRE(rows.size() == 3);
  for (const JsonCursor& row : rows) {
    row.expect_object(
        {"rule", "severity", "entry", "name", "pointer", "line", "column", "message", "fix"});
    CHECK(row.node().keys.size() == 9);
  }
  CHECK_FALSE(rows[0].find("entry"));
  CHECK(rows[1].at("entry").as_int32(0, 9) == 0);
  CHECK(rows[1].at("name").as_string() == "a\"b");
  CHECK(rows[1].at("severity").as_string() == "error");
  CHECK(rows[1].at("pointer").as_string() == "/0/pipeline_model_parallel_size");
  CHECK(rows[1].at("line").as_int32(0, 99) == 4);
  CHECK(rows[1].at("column").as_int32(0, 99) == 91);
  CHECK(rows[1].at("message").as_string() == "94 layers, <8>: 5 %");
  CHECK(rows[1].at("fix").as_string() == "use 2\nor 47");
  CHECK(format_findings({}, "list.json", Format::Json) == "{\"diagnostics\": []}\n");
}

// The fields that SARIF 2.1.0 requires, with the values it allows.
void check_sarif(const std::string& text, std::size_t count) {
  const JsonDocument document = parse_json(text, "out");
  const JsonCursor root = JsonCursor::root(document);
  root.expect_object({"$schema", "version", "runs"});
  CHECK(root.at("version").as_string() == "2.1.0");
  REQUIRE(root.at("runs").elements().size() == 1);
  const JsonCursor run = root.at("runs").elements()[0];
  const JsonCursor driver = run.at("tool").at("driver");
  CHECK(driver.at("name").as_string() == "reshard-plan");
  const auto rules = driver.at("rules").elements();
  const auto results = run.at("results").elements();
  CHECK(results.size() == count);
  for (const JsonCursor& result : results) {
    const auto index = result.at("ruleIndex").as_int32(0, static_cast<int>(rules.size()) - 1);
    const JsonCursor& rule = rules[static_cast<std::size_t>(index)];
    CHECK(rule.at("id").as_string() == result.at("ruleId").as_string());
    CHECK_FALSE(rule.at("shortDescription").at("text").as_string().empty());
    const std::string& level = result.at("level").as_string();
    CHECK((level == "error" || level == "warning" || level == "note"));
    CHECK_FALSE(result.at("message").at("text").as_string().empty());
    const JsonCursor place = result.at("locations").elements()[0].at("physicalLocation");
    CHECK(place.at("artifactLocation").at("uri").as_string() == "my%20lists/%C3%A4.json");
    CHECK(place.at("region").at("startLine").as_int32(1, 99) >= 1);
    CHECK(place.at("region").at("startColumn").as_int32(1, 99) >= 1);
  }
}

TEST_CASE("sarif has the required fields") {
  check_sarif(format_findings(sample(), "my lists/\xC3\xA4.json", Format::Sarif), 3);
  check_sarif(format_findings({}, "my lists/\xC3\xA4.json", Format::Sarif), 0);
}

TEST_CASE("junit counts failures and escapes") {
  const std::string text = format_findings(sample(), "a<b>.json", Format::Junit);
  CHECK_THAT(text, Catch::StartsWith("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>"));
  CHECK_THAT(text, Catch::Contains("<testsuite name=\"a&lt;b&gt;.json\" tests=\"3\" failures=\"2\" "
                                   "errors=\"0\" skipped=\"0\">"));
  CHECK_THAT(text, Catch::Contains("name=\"S302 /0/pipeline_model_parallel_size\"><failure "
                                   "type=\"error\" message=\"entry 0 &quot;a\\&quot;b&quot;: 94 "
                                   "layers, &lt;8&gt;: 5 %\">"));
  CHECK_THAT(text, Catch::Contains("name=\"S122 /\"><system-out>a&lt;b&gt;.json:1:1: one entry "
                                   "only</system-out></testcase>"));
  CHECK_THAT(format_findings({}, "a", Format::Junit),
             Catch::Contains("tests=\"1\" failures=\"0\"") &&
                 Catch::Contains("<testcase classname=\"a\" name=\"strategy list\"/>"));
}

TEST_CASE("github commands are escaped") {
  CHECK(format_findings(sample(), "a,b:c.json", Format::Github) ==
        "::notice file=a%2Cb%3Ac.json,line=1,col=1,title=S122::one entry only\n"
        "::error file=a%2Cb%3Ac.json,line=4,col=91,title=S302::entry 0 \"a\\\"b\": 94 layers, <8>: "
        "5 %25; fix: use 2%0Aor 47\n"
        "::warning file=a%2Cb%3Ac.json,line=7,col=3,title=S651::entry 2: tp is 1; fix: drop the "
        "key\n");
}

TEST_CASE("names of formats, and exit codes") {
  for (const char* name : {"text", "json", "sarif", "junit", "github"}) {
    CHECK(format_from_name(name));
  }
  CHECK_FALSE(format_from_name("xml"));
  CHECK(exit_status({}, true) == 0);
  CHECK(exit_status(sample(), false) == 1);
  std::vector<Diagnostic> mild = sample();
  mild.erase(mild.begin() + 1);
  CHECK(exit_status(mild, false) == 0);
  CHECK(exit_status(mild, true) == 1);
  for (const char* rule : {"S101", "S102", "S103", "S104"}) {
    Diagnostic unreadable;
    unreadable.rule = rule;
    CHECK(exit_status({unreadable}, false) == 2);
    CHECK_FALSE(summary_of_rule(rule).empty());
  }
  CHECK(summary_of_rule("S999").empty());
}

}  // namespace
}  // namespace plan::check
