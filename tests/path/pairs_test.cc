// Every ordered pair of the strategy lists, planned, proved and replayed on small models.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "libplan/base/files.h"
#include "tests/path/switch_check.h"

namespace plan::test {
namespace {

std::vector<Strategy> strategies(const std::string& name) {
  const std::string path = std::string(std::getenv("PLAN_TEST_DATA")) + "/strategies/" + name;
  return parse_strategy_list(read_file(path), path);
}

std::string model_file(const std::string& name) {
  return std::string(std::getenv("PLAN_TEST_DATA")) + "/models/" + name;
}

void check_all_pairs(const std::string& model, const std::string& list, const std::string& topology,
                     const PlanOptions& options) {
  const std::vector<Strategy> all = strategies(list);
  for (const Strategy& from : all) {
    for (const Strategy& to : all) {
      CAPTURE(model, list, from.name, to.name);
      REQUIRE(fault_of_switch(make_request(model, from, to, topology, options), true) == "");
    }
  }
}

PlanOptions with_states(std::initializer_list<const char*> names) {
  PlanOptions options;
  for (const char* name : names) options.states.push_back(*builtin_state_kind(name));
  return options;
}

TEST_CASE("core list: dense, odd world sizes, context parallel, Group ZeRO", "[core]") {
  check_all_pairs(model_file("small-dense.json"), "core-mix.json", "nodes=1,gpus=8", {});
  check_all_pairs(model_file("small-tied.json"), "core-mix.json", "nodes=2,gpus=4", {});
}

TEST_CASE("dense mix, optimizer state and parameters", "[dense]") {
  PlanOptions options = with_states({"main_param", "exp_avg", "exp_avg_sq", "param"});
  check_all_pairs(model_file("small-dense.json"), "dense-mix.json", "nodes=2,gpus=4", options);
}

TEST_CASE("mixture of experts, optimizer state and parameters", "[moe]") {
  PlanOptions options = with_states({"param", "main_param", "exp_avg", "exp_avg_sq"});
  options.model.transformer_impl = TransformerImpl::Local;
  check_all_pairs(model_file("small-moe.json"), "moe-mix.json", "nodes=4,gpus=2", options);
}

TEST_CASE("every algorithm, packed and not, with and without aliases, small windows") {
  const std::vector<Strategy> all = strategies("core-mix.json");
  for (const Algorithm algorithm : {Algorithm::Direct, Algorithm::Balanced}) {
    for (const Packing packing : {Packing::Never, Packing::Always}) {
      for (const std::int32_t window_ops : {2, 3, 256}) {
        PlanOptions options;
        options.algorithm = algorithm;
        options.packing = packing;
        options.window_ops = window_ops;
        options.alias = packing == Packing::Never;
        for (std::size_t i = 0; i < all.size(); i += 2) {
          const Strategy& to = all[(i + 3) % all.size()];
          CAPTURE(name_of(algorithm), window_ops, all[i].name, to.name);
          REQUIRE(fault_of_switch(make_request(model_file("small-dense.json"), all[i], to,
                                               "nodes=2,gpus=4", options),
                                  true) == "");
        }
      }
    }
  }
}

TEST_CASE("a switch to itself moves nothing and copies nothing") {
  for (const Strategy& strategy : strategies("core-mix.json")) {
    const ir::Schedule schedule = make_plan(
        make_request(model_file("small-tied.json"), strategy, strategy, "nodes=1,gpus=8", {}));
    for (const ir::Program& program : schedule.programs) {
      CHECK(program.sends.empty());
      CHECK(program.copies.empty());
    }
  }
}

}  // namespace
}  // namespace plan::test
