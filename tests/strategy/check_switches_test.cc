// S110 and the rules between two entries.
#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "libplan/model/builtin.h"
#include "libplan/strategy/stage_memory.h"
#include "tests/strategy/check_cases.h"

namespace plan::check {
namespace {

std::vector<Diagnostic> of_rule(const std::vector<Diagnostic>& findings, const std::string& rule) {
  std::vector<Diagnostic> chosen;
  std::copy_if(findings.begin(), findings.end(), std::back_inserter(chosen),
               [&](const Diagnostic& d) { return d.rule == rule; });
  return chosen;
}

// "0: message" for each finding of the rule.
std::string messages(const std::string& text, const ModelFacts& facts, const Options& options,
                     const std::string& rule) {
  std::string lines;
  for (const Diagnostic& d : of_rule(check(text, "l.json", facts, options), rule)) {
    lines += (lines.empty() ? "" : " | ") + std::to_string(d.entry.value_or(-1)) + ": " + d.message;
  }
  return lines;
}

std::string named(const std::string& name, const std::string& more = "") {
  return key("name", "\"" + name + "\"") + more;
}

TEST_CASE("S110 compares resolved values") {
  const std::string text = list(
      {entry(8, 2, 1, named("a")),
       entry(8, 2, 1,
             named("b") + key("sequence_parallel", "true") + key("order", "\"TP-cp-dp-ep-pp\"")),
       entry(8, 2, 1, named("c") + key("sequence_parallel", "false")),
       entry(8, 2, 2, named("d") + key("pipeline_model_parallel_layout", "\"E(t)*16|t*16L\"")),
       entry(8, 2, 2, named("e") + key("pipeline_model_parallel_layout", "\"Et*8t*8|t*16,L\"")),
       entry(8, 2, 1, named("f") + key("ranks", "[0,1,2,3,4,5,6,7]")),
       entry(8, 2, 1, named("g") + key("ranks", "[1,0,2,3,4,5,6,7]")), entry(8, 2, 3, named("h")),
       entry(8, 2, 3, named("i"))});
  CHECK(messages(text, dense_facts(), {}, "S110") ==
        "1: same strategy as entry 0 \"a\", expected another; the switch moves nothing | "
        "4: same strategy as entry 3 \"d\", expected another; the switch moves nothing | "
        "5: same strategy as entry 0 \"a\", expected another; the switch moves nothing");
}

TEST_CASE("S107 and S109: names and selectors") {
  Options options;
  options.selectors = {{"--from", "a"}, {"--to", "1"}, {"--at", "aa1"}, {"--at", "2"}};
  const std::string text = list({entry(8, 2, 1, named("a")), entry(8, 1, 1, named("a"))});
  const std::vector<Diagnostic> findings = check(text, "l.json", dense_facts(), options);
  REQUIRE(of_rule(findings, "S107").size() == 2);
  CHECK(of_rule(findings, "S107")[0].message ==
        "--at: no strategy \"aa1\"; the list has 0..1: a, a");
  CHECK(of_rule(findings, "S109")[0].message ==
        "name \"a\" is also entry 0, expected a name of its own");
}

TEST_CASE("S7xx: what a switch costs or loses") {
  const ModelFacts dense = dense_facts();
  const std::string more_instances = key("num_distributed_optimizer_instances", "2");
  const std::string plain = key("use_distributed_optimizer", "false");
  const std::string two = list({entry(16, 1, 1, named("a", more_instances)),
                                entry(16, 4, 1, named("b")), entry(8, 8, 1, named("c"))});
  CHECK(messages(two, dense, {}, "S701") ==
        "0: padded vocab 32256 → 32000 from b; 32768 → 32000 from c: true rows move, pad rows are "
        "filled (Megatron's refit refuses this) | "
        "1: padded vocab 32000 → 32256 from a; 32768 → 32256 from c: true rows move, pad rows are "
        "filled (Megatron's refit refuses this) | "
        "2: padded vocab 32000 → 32768 from a; 32256 → 32768 from b: true rows move, pad rows are "
        "filled (Megatron's refit refuses this)");
  CHECK(messages(two, dense, {}, "S703") ==
        "1: optimizer copies 2 → 1 from a: a lost rank is a lost shard | "
        "2: optimizer copies 2 → 1 from a: a lost rank is a lost shard");
  CHECK(messages(two, dense, {}, "S709") ==
        "0: another world size than c; from c ranks 8-15 join | "
        "1: another world size than c; from c ranks 8-15 join | "
        "2: another world size than a, b; from a ranks 8-15 leave");

  CHECK(messages(list({entry(8, 1, 1, named("a")), entry(8, 1, 1, named("b", plain))}), dense, {},
                 "S702") ==
        "0: whole-tensor → flat-sharded optimizer state from b | "
        "1: flat-sharded → whole-tensor optimizer state from a");
  CHECK(messages(list({entry(8, 2, 2, named("a")),
                       entry(8, 2, 2, named("b", key("order", "\"dp-tp-cp-ep-pp\""))),
                       entry(8, 8, 1, named("c"))}),
                 dense, {}, "S704") ==
        "0: another order than b: ranks mean other coordinates, nearly all moves | "
        "1: another order than a: ranks mean other coordinates, nearly all moves");
  CHECK(messages(list({entry(4, 1, 1, named("a", key("ranks", "[0,1,2,9]"))),
                       entry(6, 1, 1, named("b", key("ranks", "[0,2,3,4,5,11]")))}),
                 dense, {}, "S709") ==
        "0: another world size than b; from b ranks 1, 9 join, ranks 3-5, 11 leave | "
        "1: another world size than a; from a ranks 3-5, 11 join, ranks 1, 9 leave");

  ModelFacts tied = dense;
  tied.tied_embeddings = true;
  CHECK(
      messages(list({entry(8, 1, 1, named("a")), entry(8, 1, 2, named("b"))}), tied, {}, "S708") ==
      "0: two copies of the tied embedding become one from b | "
      "1: one tied embedding becomes two copies (first and last stage) from a");
  const std::string experts =
      list({entry(8, 1, 1, named("a")),
            entry(8, 1, 1, named("b", key("expert_model_parallel_size", "2")))});
  CHECK(of_rule(check(experts, "l", moe_facts(), with_version("0.13")), "S707").size() == 2);
  CHECK(of_rule(check(experts, "l", moe_facts(), with_version("newest")), "S707").empty());
}

TEST_CASE("switches leave out entries with an error") {
  const std::string text =
      list({entry(8, 1, 1, named("a")), entry(8, 3, 1, named("bad")), entry(8, 1, 1, named("c"))});
  CHECK(messages(text, dense_facts(), {}, "S701").empty());
}

TEST_CASE("S705: global batch size") {
  Options options;
  options.global_batch_size = 48;
  options.micro_batch_size = 2;
  const std::string text =
      list({entry(8, 1, 1, named("a")), entry(16, 2, 1, named("b")), entry(32, 1, 1, named("c"))});
  CHECK(messages(text, dense_facts(), options, "S705") ==
        "2: dp·micro = 32·2 = 64 must divide the global batch size, found 48");
}

TEST_CASE("S706 asks for every ordered pair when ranks are dead") {
  Options options;
  options.dead_ranks = {DeviceId(3)};
  int asked = 0;
  options.lost_state = [&](const Strategy& source, const Strategy& target) {
    ++asked;
    const bool lost = source.name == "a" && target.name == "c";
    return lost ? std::optional<std::string>("decoder.w [0, 4) x [0, 2), dead rank 3")
                : std::nullopt;
  };
  const std::string text =
      list({entry(8, 1, 1, named("a")), entry(8, 2, 1, named("b")), entry(8, 4, 1, named("c"))});
  CHECK(messages(text, dense_facts(), options, "S706") ==
        "2: from a state is lost, expected a living holder of everything: decoder.w [0, 4) x [0, "
        "2), dead rank 3");
  CHECK(asked == 6);
  options.dead_ranks.clear();
  CHECK(messages(text, dense_facts(), options, "S706").empty());
}

TEST_CASE("S905 and S908: switches that ElasticMegatron would refuse") {
  Options options;
  options.compat_elastic = true;
  const std::string cp2 = key("context_parallel_size", "2");
  const auto with_k = [&](const std::string& name, int k) {
    return named(name, cp2 + key("num_distributed_optimizer_instances", std::to_string(k)));
  };
  const std::string scaled = list({entry(8, 1, 1, with_k("a", 1)), entry(16, 1, 1, with_k("b", 2)),
                                   entry(16, 1, 1, with_k("c", 4))});
  const std::string text = messages(scaled, dense_facts(), options, "S905");
  CHECK_THAT(text, Catch::Contains("0: ElasticMegatron") && Catch::Contains("switch from c"));
  CHECK_THAT(text, Catch::Contains("2: ElasticMegatron") && Catch::Contains("switch from a, b"));
  const std::string same = list(
      {entry(8, 2, 1, named("a")), entry(8, 2, 1, named("b", key("sequence_parallel", "false")))});
  CHECK_THAT(messages(same, dense_facts(), options, "S908"), Catch::Contains("1: ElasticMegatron"));
}

TEST_CASE("a very long list is checked in part, and says what it left out") {
  std::vector<std::string> entries;
  for (int i = 1; i <= 2100; ++i) entries.push_back(entry(i, 1, 1));
  const std::vector<Diagnostic> findings = check(list(entries), "l.json", dense_facts(), {});
  REQUIRE(of_rule(findings, "S122").size() == 1);
  CHECK_THAT(of_rule(findings, "S122")[0].message, Catch::Contains("first 2000 entries"));
}

ModelFacts llama_70b() { return model_facts(read_model("llama-2-70b", {}), {}); }

TEST_CASE("S8xx: memory") {
  const ModelFacts facts = llama_70b();
  Options options;
  options.memory_limit = std::int64_t{80} << 30;
  const std::string text =
      list({entry(8, 8, 1, named("a")), entry(64, 8, 1, named("b")), entry(16, 8, 1, named("c")),
            entry(64, 8, 1, named("d", key("num_distributed_optimizer_instances", "8"))),
            entry(64, 8, 1, named("e", key("use_distributed_optimizer", "false"))),
            entry(64, 8, 1, named("f", key("use_torch_fsdp2", "true")))});
  const std::vector<Diagnostic> findings = check(text, "l.json", facts, options);
  const std::vector<Diagnostic> too_much = of_rule(findings, "S801");
  REQUIRE(too_much.size() == 4);
  // 68,976,648,192 parameters, of which 1,318,912 norms are on every rank.
  CHECK(too_much[0].message ==
        "rank 0 needs 144.6 GiB (weights 16.1, gradients 32.1, optimizer 96.4), limit 80.0 GiB");
  CHECK(too_much[1].entry == 2);
  CHECK(too_much[2].entry == 3);
  CHECK_THAT(too_much[2].fix, Catch::Contains("set num_distributed_optimizer_instances to 4") ||
                                  Catch::Contains("to 2") || Catch::Contains("to 1"));
  CHECK(too_much[3].entry == 4);
  // An error of another kind does not hide it; a key that cannot be read does.
  const auto with = [&](const std::string& more) {
    return of_rule(check(list({entry(8, 8, 1, more)}), "l", facts, options), "S801").size();
  };
  CHECK(with(key("name", "7")) == 1);
  CHECK(with(key("num_distributed_optimizer_instances", "true")) == 0);
  CHECK_THAT(too_much[0].fix, Catch::Contains("set pipeline_model_parallel_size to 2") ||
                                  Catch::Contains("set world_size to"));
  options.memory_limit = std::int64_t{62} << 30;
  CHECK(of_rule(check(text, "l.json", facts, options), "S802")[0].entry == 1);
  const std::string pair = list({entry(64, 8, 1, named("b")), entry(64, 4, 2, named("g"))});
  options.memory_limit = std::int64_t{70} << 30;
  const std::vector<Diagnostic> peak = of_rule(check(pair, "l.json", facts, options), "S803");
  REQUIRE(peak.size() == 2);
  CHECK(peak[0].severity == Severity::Note);
  options.memory_limit = std::int64_t{90} << 30;
  CHECK(of_rule(check(pair, "l.json", facts, options), "S803").empty());
}

}  // namespace
}  // namespace plan::check
