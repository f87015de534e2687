// Switches between Megatron, torch FSDP2 and DTensor entries: planned, proved and replayed.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/path/switch_check.h"

namespace plan::test {
namespace {

// Sizes that do not divide, empty shards, strided pieces, members in no order.
constexpr const char* kList = R"json([
  {"name": "megatron", "world_size": 8, "tensor_model_parallel_size": 2,
   "pipeline_model_parallel_size": 2},
  {"name": "megatron-fsdp2", "world_size": 6, "tensor_model_parallel_size": 2,
   "pipeline_model_parallel_size": 1, "use_torch_fsdp2": true, "ranks": [7, 1, 2, 6, 4, 5]},
  {"name": "hsdp", "mesh": [["replicate", 2], ["dp", 3]], "use_torch_fsdp2": true,
   "placements": {"*": ["R", "S(0)"]}},
  {"name": "fsdp2-tp", "mesh": [["dp", 3], ["tp", 2]], "use_torch_fsdp2": true,
   "ranks": [5, 4, 7, 0, 3, 1],
   "placements": {"*": ["S(0)", "R"], "*.linear_fc1.weight": ["SS(0,2)", "S(0)"],
                  "*.linear_fc2.weight": ["S(0)", "S(1)"]}},
  {"name": "dtensor", "mesh": [["a", 3], ["b", 2]],
   "placements": {"*": ["S(0)", "R"], "*.weight": ["SS(0,4)", "S(-1)"]}}])json";

void check_all_pairs(const std::string& model, const PlanOptions& options) {
  const std::vector<Strategy> all = parse_strategy_list(kList, "mesh list");
  for (const Strategy& from : all) {
    for (const Strategy& to : all) {
      CAPTURE(model, from.name, to.name);
      CHECK(fault_of_switch(make_request(model, from, to, "nodes=2,gpus=4", options), true) == "");
    }
  }
}

TEST_CASE("Megatron, FSDP2 and DTensor entries, optimizer state", "[mesh]") {
  check_all_pairs(std::string(std::getenv("PLAN_TEST_DATA")) + "/models/small-dense.json", {});
}

TEST_CASE("Megatron, FSDP2 and DTensor entries, experts and parameters", "[mesh]") {
  PlanOptions options;
  for (const char* name : {"main_param", "exp_avg", "exp_avg_sq", "param"}) {
    options.states.push_back(*builtin_state_kind(name));
  }
  check_all_pairs("tiny-moe", options);
}

}  // namespace
}  // namespace plan::test
