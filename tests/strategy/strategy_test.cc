#include "libplan/strategy/strategy.h"

#include <catch2/catch.hpp>

#include "libplan/base/error.h"
#include "tests/strategy/test_data.h"

namespace plan {
namespace {

// `more` are further keys after the required ones.
Strategy one(const std::string& more) {
  return parse_strategy_list(
      R"([{"world_size": 8, "tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 1)" +
          more + "}]",
      "list.json")[0];
}

TEST_CASE("every key is read, and written back without loss") {
  const Strategy s = one(R"(, "name": "all", "context_parallel_size": 3,
    "expert_model_parallel_size": 4, "expert_tensor_parallel_size": 5,
    "num_distributed_optimizer_instances": 6, "virtual_pipeline_model_parallel_size": 7,
    "num_layers_in_first_pipeline_stage": 8, "num_layers_in_last_pipeline_stage": 9,
    "account_for_embedding_in_pipeline_split": true, "account_for_loss_in_pipeline_split": true,
    "pipeline_model_parallel_layout": "Et*2||t|L", "sequence_parallel": false,
    "use_distributed_optimizer": false, "order": "tp-cp-ep-pp-dp",
    "ranks": [7, 6, 5, 4, 3, 2, 1, 2147483647], "use_torch_fsdp2": true,
    "use_megatron_fsdp": true, "overlap_grad_reduce": true, "ddp_bucket_size": 40000000000,
    "ddp_num_buckets": 3, "ddp_pad_buckets_for_high_nccl_busbw": true,
    "accumulate_allreduce_grads_in_fp32": false, "use_precision_aware_optimizer": false)");
  CHECK(s.name == "all");
  CHECK(s.context_parallel_size == 3);
  CHECK(s.expert_model_parallel_size == 4);
  CHECK(s.etp() == 5);
  CHECK(s.num_distributed_optimizer_instances == 6);
  CHECK(s.vpp() == 7);
  CHECK(s.num_layers_in_first_pipeline_stage == 8);
  CHECK(s.num_layers_in_last_pipeline_stage == 9);
  CHECK(s.account_for_embedding_in_pipeline_split);
  CHECK(s.account_for_loss_in_pipeline_split);
  CHECK(s.pipeline_model_parallel_layout == std::vector<std::string>{"Ett", "", "t", "L"});
  CHECK(s.sequence_parallel == false);
  CHECK_FALSE(s.use_distributed_optimizer);
  CHECK(s.order == "tp-cp-ep-pp-dp");
  CHECK(s.device_of(7) == DeviceId(2147483647));
  CHECK(s.use_torch_fsdp2);
  CHECK(s.use_megatron_fsdp);
  CHECK(s.overlap_grad_reduce == true);
  CHECK(s.ddp_bucket_size == 40'000'000'000);
  CHECK(s.ddp_num_buckets == 3);
  CHECK(s.ddp_pad_buckets_for_high_nccl_busbw == true);
  CHECK(s.accumulate_allreduce_grads_in_fp32 == false);
  CHECK(s.use_precision_aware_optimizer == false);
  CHECK(parse_strategy_list("[" + to_json(s) + "]", "again")[0] == s);
}

TEST_CASE("defaults, null and VPP 1 mean unset") {
  const Strategy plain = one("");
  CHECK(plain.etp() == 2);
  CHECK(plain.vpp() == 1);
  CHECK(plain.device_of(5) == DeviceId(5));
  CHECK(one(R"(, "virtual_pipeline_model_parallel_size": 1, "context_parallel_size": null,
    "sequence_parallel": null, "name": null, "order": null, "ranks": null, "mesh": null,
    "pipeline_model_parallel_layout": null, "ddp_bucket_size": null)") == plain);
  CHECK(to_json(plain) ==
        R"({"world_size": 8, "tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 1})");
}

TEST_CASE("a mesh needs no Megatron sizes") {
  const Strategy s = parse_strategy_list(
      R"json([{"mesh": [["dp", 2], ["tp", 3]],
           "placements": {"w": ["Shard(1)", "Replicate()"], "b": ["Shard(0)", "Shard(0)"]}}])json",
      "list.json")[0];
  CHECK(s.world_size == 6);
  CHECK(s.mesh == std::vector<MeshAxis>{{"dp", 2}, {"tp", 3}});
  CHECK(s.placements_json ==
        R"json({"b":["Shard(0)","Shard(0)"],"w":["Shard(1)","Replicate()"]})json");
  CHECK(parse_strategy_list("[" + to_json(s) + "]", "again")[0] == s);
}

TEST_CASE("faults carry file, pointer, line, column, required and found") {
  struct Row {
    std::string more;
    std::string message;
  };
  const std::vector<Row> table{
      {R"(, "context_parallel_size": "2")",
       "list.json:/0/context_parallel_size (line 1, column 113): context_parallel_size: expected "
       "an integer, found the string \"2\"; write 2"},
      {R"(, "context_parallel_size": 0)", "expected 1 to 2147483647, found 0"},
      {R"(, "context_parallel_size": 2.0)", "expected an integer, found 2.0"},
      {R"(, "context_parallel_size": 99999999999999999999)", "found 99999999999999999999"},
      {R"(, "context_parallel_size": true)", "expected an integer, found true"},
      {R"(, "sequence_parallel": 1)", "expected true or false, found 1"},
      {R"(, "name": "")", "found an empty name"},
      {R"(, "name": 7)", "name: expected a string, found 7"},
      {R"(, "order": [])", "order: expected a string, found a list"},
      {R"(, "context_paralel_size": 2)", "write \"context_parallel_size\""},
      {R"(, "decoder_last_pipeline_num_layers": 2)", "write \"num_layers_in_last_pipeline_stage\""},
      {R"(, "pipeline_model_parallel_layout": "Etd")", "unknown character \"d\""},
      {R"(, "pipeline_model_parallel_layout": 4)", "expected a string or a list, found 4"},
      {R"(, "ranks": [0, 1])", "expected 8 devices, one for each rank, found 2"},
      {R"(, "ranks": [0, 0])", "found 0 twice"},
      {R"(, "ranks": [-1])", "found -1"},
      {R"(, "ranks": ["0"])", "expected an integer"},
      {R"(, "mesh": [["dp", 4]])", "expected 8 devices as world_size says, found 4"},
      {R"(, "mesh": [["dp", 4], ["dp", 2]])", "expected a new axis name"},
      {R"(, "mesh": {"dp": 8})", "expected a list of [axis, size] pairs"},
      {R"(, "mesh": [["dp", 65536], ["tp", 65536]])", "found more"},
      {R"(, "placements": {})", "placements need a mesh"},
      {R"(, "world_size": 8)", "given twice"},
  };
  for (const Row& row : table) {
    CAPTURE(row.more);
    CHECK_THROWS_WITH(one(row.more), Catch::Contains(row.message));
  }
}

TEST_CASE("faults of the list") {
  const auto parse = [](const std::string& text) { return parse_strategy_list(text, "l.json"); };
  const std::string entry =
      R"({"name": "a", "world_size": 8, "tensor_model_parallel_size": 2,
          "pipeline_model_parallel_size": 1})";
  CHECK_THROWS_WITH(parse("[]"), Catch::Contains("no strategy"));
  CHECK_THROWS_WITH(parse("{}"), Catch::Contains("expected a list of strategies, found an object"));
  CHECK_THROWS_WITH(parse("[1]"), Catch::Contains("l.json:/0") && Catch::Contains("found 1"));
  CHECK_THROWS_WITH(parse("[" + entry + "," + entry + "]"), Catch::Contains("also entry 0"));
  CHECK_THROWS_WITH(parse("[{\"world_size\": 1}]"),
                    Catch::Contains("\"tensor_model_parallel_size\" is missing"));
  CHECK_THROWS_AS(parse("[" + entry + ",]"), Error);
  CHECK_THROWS_AS(parse(std::string(100, '[')), Error);
}

TEST_CASE("strategies are found by name, then by index") {
  const std::vector<Strategy> list =
      parse_strategy_list(read_test_file("strategies/dense-mix.json"), "dense-mix.json");
  REQUIRE(list.size() == 12);
  CHECK(&find_strategy(list, "tp8") == &list[9]);
  CHECK(&find_strategy(list, "3") == &list[3]);
  CHECK_THROWS_WITH(find_strategy(list, "tp16"),
                    Catch::Contains("no strategy \"tp16\"; the list has 0..11: dp8, tp2-dp4") &&
                        Catch::Contains("nearest name is \"tp8\""));
  CHECK_THROWS_AS(find_strategy(list, "12"), Error);
  CHECK_THROWS_AS(find_strategy(list, "-1"), Error);
  CHECK_THROWS_AS(find_strategy(list, ""), Error);
  std::vector<Strategy> digits(2);
  digits[0].name = "1";
  CHECK(&find_strategy(digits, "1") == &digits[0]);
}

TEST_CASE("the stored lists are read and written back without loss") {
  for (const char* name : {"dense-mix", "moe-mix", "large", "deepseek-v3", "qwen3-235b"}) {
    const std::string text = read_test_file(std::string("strategies/") + name + ".json");
    for (const Strategy& s : parse_strategy_list(text, name)) {
      CHECK(parse_strategy_list("[" + to_json(s) + "]", "again")[0] == s);
    }
  }
}

}  // namespace
}  // namespace plan
