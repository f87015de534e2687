// Lists that nobody would write: check must answer with findings, never throw, crash or hang.
#include <catch2/catch.hpp>
#include <memory>
#include <random>

#include "libplan/base/error.h"
#include "libplan/model/builtin.h"
#include "libplan/strategy/check_format.h"
#include "tests/strategy/check_cases.h"
#include "tests/strategy/test_data.h"

namespace plan::check {
namespace {

Options all_options(std::mt19937& random) {
  Options options;
  const auto coin = [&] { return random() % 2 == 0; };
  if (coin()) {
    options.version = static_cast<MegatronVersion>(random() % 3);
  }
  if (coin()) options.topology = parse_topology_shorthand("nodes=4,gpus=8");
  if (coin()) options.dead_ranks = {DeviceId(3), DeviceId(77)};
  if (coin()) options.memory_limit = std::int64_t{80} << 30;
  if (coin()) options.seq_length = 4096;
  if (coin()) options.global_batch_size = 512;
  options.compat_elastic = coin();
  options.overlap_grad_reduce = coin();
  options.lost_state = [](const Strategy&, const Strategy&) { return std::nullopt; };
  return options;
}

std::string mutated(std::string text, std::mt19937& random) {
  static const std::vector<std::string> kParts{"0",
                                               "-1",
                                               "2147483647",
                                               "2147483648",
                                               "99999999999999999999",
                                               "1e9",
                                               "null",
                                               "true",
                                               "[]",
                                               "{}",
                                               "\"\"",
                                               "\"tp-dp\"",
                                               "\"(t*9|)*9\"",
                                               ",",
                                               ":",
                                               "[[[[",
                                               "\xFF",
                                               "\xC3",
                                               "\\u0000",
                                               "\\ud800",
                                               "1.5",
                                               "7",
                                               "3",
                                               "64",
                                               "\"E|\""};
  static const std::vector<std::string> kKeys{"world_size",
                                              "order",
                                              "ranks",
                                              "mesh",
                                              "placements",
                                              "context_parallel_size",
                                              "expert_model_parallel_size",
                                              "expert_tensor_parallel_size",
                                              "ddp_bucket_size",
                                              "num_distributed_optimizer_instances",
                                              "virtual_pipeline_model_parallel_size",
                                              "num_layers_in_first_pipeline_stage",
                                              "num_layers_in_last_pipeline_stage",
                                              "pipeline_model_parallel_layout",
                                              "account_for_loss_in_pipeline_split"};
  for (std::uint32_t step = 0; step < 1 + random() % 4 && !text.empty(); ++step) {
    const std::size_t at = random() % text.size();
    const std::string& part = kParts[random() % kParts.size()];
    switch (random() % 6) {
      case 0: text[at] = static_cast<char>(random()); break;
      case 1: text.erase(at, 1 + random() % 9); break;
      case 2: text.insert(at, part); break;
      case 3: text.insert(at, text.substr(random() % text.size(), random() % 60)); break;
      case 4: {  // another value for a number
        const std::size_t digit = text.find_first_of("0123456789", at);
        if (digit != std::string::npos) text.replace(digit, 1, part);
        break;
      }
      default: {  // one more key
        const std::size_t brace = text.find('}', at);
        if (brace != std::string::npos) {
          text.insert(brace, ", \"" + kKeys[random() % kKeys.size()] + "\": " + part);
        }
      }
    }
  }
  return text;
}

TEST_CASE("random mutations of good and faulty lists are answered") {
  const std::uint32_t seed = 20'251'201;
  std::mt19937 random(seed);
  const std::vector<std::string> names{"dense-mix",
                                       "moe-mix",
                                       "large",
                                       "faulty/layouts",
                                       "faulty/order",
                                       "faulty/virtual-stages",
                                       "faulty/group-zero",
                                       "faulty/odd-numbers",
                                       "faulty/stage-sums",
                                       "faulty/group-zero-experts",
                                       "faulty/switches",
                                       "faulty/version-0.11"};
  std::vector<std::string> texts;
  for (const std::string& name : names)
    texts.push_back(read_test_file("strategies/" + name + ".json"));
  const std::vector<ModelFacts> models{model_facts(read_model("llama-2-7b", {}), {}),
                                       model_facts(read_model("mixtral-8x7b", {}), {}),
                                       ModelFacts{}};
  for (int i = 0; i < 1500; ++i) {
    const std::string text = mutated(texts[random() % texts.size()], random);
    const Options options = all_options(random);
    INFO("seed " << seed << ", round " << i << ": " << text);
    std::vector<Diagnostic> findings;
    REQUIRE_NOTHROW(findings = check(text, "l.json", models[random() % models.size()], options));
    for (const Diagnostic& d : findings) {
      REQUIRE_FALSE(summary_of_rule(d.rule).empty());
      REQUIRE(d.line >= 1);
    }
    for (const Format format : {Format::Text, Format::Json, Format::Sarif, Format::Junit}) {
      format_findings(findings, "l.json", format);
    }
    // The strict reader refuses at least what check calls an error of the text or of a key.
    try {
      parse_strategy_list(text, "l.json");
      for (const Diagnostic& d : findings) {
        const bool of_form = d.rule >= "S101" && d.rule <= "S115" && d.severity == Severity::Error;
        REQUIRE_FALSE(of_form);
      }
    } catch (const Error&) {
    }
  }
}

TEST_CASE("texts that are no lists") {
  struct Row {
    std::string text, rule;
    int line, column;
  };
  const std::string deep(40, '[');
  const std::vector<Row> table{{"", "S101", 1, 1},
                               {"[\n {\"a\": 1},\n]", "S101", 3, 1},
                               {"[NaN]", "S101", 1, 2},
                               {"[01]", "S101", 1, 3},
                               {"['a']", "S101", 1, 2},
                               {"[] []", "S101", 1, 4},
                               {"[\"\xFF\"]", "S101", 1, 3},
                               {std::string("[\0]", 3), "S101", 1, 2},
                               {"\xFF\xFE[\0]\0", "S101", 1, 1},
                               {deep, "S102", 1, 33},
                               {std::string((16 << 20) + 1, ' '), "S102", 1, 1},
                               {"{}", "S103", 1, 1},
                               {"3", "S103", 1, 1},
                               {"[]", "S104", 1, 1}};
  for (const Row& row : table) {
    CAPTURE(row.text.substr(0, 60));
    const std::vector<Diagnostic> findings = check(row.text, "l.json", dense_facts(), {});
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].rule == row.rule);
    CHECK(findings[0].line == row.line);
    CHECK(findings[0].column == row.column);
    CHECK(exit_status(findings, false) == 2);
  }
}

TEST_CASE("a byte order mark is a note, a duplicate key ends its entry") {
  const std::vector<Diagnostic> mark =
      check("\xEF\xBB\xBF" + list({entry(8, 1, 1)}), "l.json", dense_facts(), {});
  CHECK(mark[0].rule == "S106");
  CHECK(exit_status(mark, true) == 0);
  const std::vector<Diagnostic> twice = check(
      list({entry(9, 1, 2, key("world_size", "9")), entry(9, 1, 2)}), "l.json", dense_facts(), {});
  REQUIRE(twice.size() == 2);
  CHECK(twice[0].rule == "S105");
  CHECK(twice[0].message ==
        "\"world_size\" is given twice (at line 1 and at line 1), expected once");
  CHECK(twice[0].pointer == "/0/world_size");
  CHECK(twice[1].rule == "S201");
  CHECK(twice[1].entry == 1);
}

}  // namespace
}  // namespace plan::check
