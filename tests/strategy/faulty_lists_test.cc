// Every list of tests/strategies/faulty against expected.json: each listed finding must be
// reported, and no other error or warning.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "libplan/base/json_tree.h"
#include "libplan/strategy/check.h"
#include "tests/strategy/test_data.h"

namespace plan::check {
namespace {

// "S302 0 pipeline_model_parallel_size"
std::string finding_text(const std::string& rule, const std::string& entry,
                         const std::string& field) {
  return rule + " " + entry + " " + field;
}

std::string finding_text(const Diagnostic& d) {
  const std::size_t last = d.pointer.rfind('/');
  const bool entry_alone = d.entry && d.pointer == "/" + std::to_string(*d.entry);
  const bool whole = last == std::string::npos || entry_alone;
  return finding_text(d.rule, d.entry ? std::to_string(*d.entry) : "null",
                      whole ? "null" : d.pointer.substr(last + 1));
}

ModelFacts facts_of(const std::string& config, MegatronVersion version) {
  const std::string name = config.substr(0, config.find(".config.json"));
  ModelOptions options;
  options.megatron_version = version;
  return model_facts(read_model(name, options), options.transformer_impl);
}

Options read_options(const std::optional<JsonCursor>& given) {
  Options options;
  if (!given) return options;
  if (const auto topology = given->find("topology")) {
    options.topology = parse_topology_shorthand(topology->as_string());
  }
  if (const auto version = given->find("megatron_version")) {
    options.version = megatron_version_from_name(version->as_string());
    REQUIRE(options.version);
  }
  if (const auto limit = given->find("memory_limit")) {
    REQUIRE(limit->as_string() == "80GiB");
    options.memory_limit = std::int64_t{80} << 30;
  }
  return options;
}

TEST_CASE("faulty lists give exactly the expected findings") {
  const JsonDocument document =
      parse_json(read_test_file("strategies/faulty/expected.json"), "expected.json");
  const JsonCursor root = JsonCursor::root(document);
  int lists = 0;
  for (const auto& [file, models] : root.at("expected").members()) {
    const Options options = read_options(root.at("options").find(file));
    const std::string text = read_test_file("strategies/faulty/" + file);
    for (const auto& [config, expected] : models.members()) {
      CAPTURE(file, config);
      ++lists;
      std::multiset<std::string> wanted;
      for (const JsonCursor& row : expected.elements()) {
        const auto entry = row.find("entry");
        const auto field = row.find("field");
        wanted.insert(finding_text(row.at("rule").as_string(),
                                   entry ? std::to_string(entry->as_int32(0, 1000)) : "null",
                                   field ? field->as_string() : "null"));
      }
      const MegatronVersion version = options.version.value_or(MegatronVersion::V020);
      std::multiset<std::string> found;
      for (const Diagnostic& d : check(text, file, facts_of(config, version), options)) {
        const std::string finding = finding_text(d);
        if (d.severity != Severity::Note || wanted.contains(finding)) found.insert(finding);
        CHECK(d.line >= 1);
        CHECK(d.column >= 1);
        CHECK_FALSE(d.message.empty());
      }
      CHECK(found == wanted);
    }
  }
  CHECK(lists == 33);
}

TEST_CASE("the good lists have no error and no warning") {
  const std::vector<std::pair<std::string, std::string>> table{{"dense-mix", "llama-2-7b"},
                                                               {"moe-mix", "qwen3-30b-a3b"},
                                                               {"large", "llama-3.1-70b"},
                                                               {"deepseek-v3", "deepseek-v3"},
                                                               {"qwen3-235b", "qwen3-235b-a22b"}};
  for (const auto& [list, model] : table) {
    CAPTURE(list);
    const std::string text = read_test_file("strategies/" + list + ".json");
    for (const MegatronVersion version : {MegatronVersion::V013, MegatronVersion::V020}) {
      Options options;
      options.version = version;
      for (const Diagnostic& d : check(text, list, facts_of(model, version), options)) {
        CAPTURE(d.rule, d.pointer, d.message);
        CHECK(d.severity == Severity::Note);
      }
    }
  }
}

}  // namespace
}  // namespace plan::check
