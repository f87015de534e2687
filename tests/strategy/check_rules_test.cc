// One row or more for each rule about a single entry: where it speaks, and where it is silent.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <string>

#include "libplan/strategy/check_format.h"
#include "tests/strategy/check_cases.h"

namespace plan::check {
namespace {

const std::string kTp = "tensor_model_parallel_size";
const std::string kPp = "pipeline_model_parallel_size";
const std::string kCp = "context_parallel_size";
const std::string kEp = "expert_model_parallel_size";
const std::string kEtp = "expert_tensor_parallel_size";
const std::string kInstances = "num_distributed_optimizer_instances";
const std::string kVirtual = "virtual_pipeline_model_parallel_size";
const std::string kFirst = "num_layers_in_first_pipeline_stage";
const std::string kLast = "num_layers_in_last_pipeline_stage";
const std::string kEmbedding = "account_for_embedding_in_pipeline_split";
const std::string kLoss = "account_for_loss_in_pipeline_split";
const std::string kLayout = "pipeline_model_parallel_layout";
const std::string kSequence = "sequence_parallel";
const std::string kDistributed = "use_distributed_optimizer";
const std::string kOrder = "order";

std::string quoted_key(const std::string& name, const std::string& value) {
  return key(name, "\"" + value + "\"");
}

struct Row {
  std::string text;      // the entry
  std::string version;   // "": none asked for
  std::string expected;  // "S302 error <key>"; "S302" alone: must not be found
  std::function<void(ModelFacts&, Options&)> change = nullptr;
};

void check_rows(const std::vector<Row>& rows, const ModelFacts& model) {
  for (const Row& row : rows) {
    CAPTURE(row.text, row.version, row.expected);
    ModelFacts facts = model;
    Options options = with_version(row.version);
    if (row.change) row.change(facts, options);
    const std::vector<std::string> lines = found(list({row.text}), facts, options);
    CAPTURE(lines);
    if (row.expected.size() == 4) {
      CHECK(std::none_of(lines.begin(), lines.end(),
                         [&](const std::string& line) { return line.starts_with(row.expected); }));
      continue;
    }
    std::string wanted = row.expected;
    const std::size_t field = wanted.rfind(' ') + 1;
    const bool whole_entry = wanted.substr(field) == "-";
    wanted = wanted.substr(0, field) + (whole_entry ? "/0" : "/0/" + wanted.substr(field));
    CHECK(std::count(lines.begin(), lines.end(), wanted) == 1);
  }
}

TEST_CASE("S1xx: keys and values") {
  check_rows(
      {
          {entry(8, 1, 1, key("name", "\"7\"")), "", "S108 warning name"},
          {entry(8, 1, 1, key("name", "\"a7\"")), "", "S108"},
          {"7", "", "S111 error -"},
          {entry(8, 1, 1, key("tensor_parallel_size", "1")), "", "S112 error tensor_parallel_size"},
          {"{}", "", "S113 error world_size"},
          {R"({"mesh": [["dp", 4]], "placements": {}})", "", "S113"},
          {entry(8, 1, 1, key(kCp, "\"2\"")), "", "S114 error " + kCp},
          {entry(8, 1, 1, key(kCp, "1.0")), "", "S114 error " + kCp},
          {entry(8, 1, 1, key(kCp, "null")), "", "S114"},
          {entry(8, 1, 1, key(kCp, "0")), "", "S115 error " + kCp},
          {entry(8, 1, 1, key(kCp, "18446744073709551617")), "", "S115 error " + kCp},
          {entry(8, 1, 1, key("name", "\"\"")), "", "S115 error name"},
          {entry(8, 1, 1, key("ranks", "[0]")), "", "S115 error ranks"},
          {entry(8, 1, 1, key("ranks", "[0,1,2,3,4,5,6,99]")), "", "S120 error ranks",
           [](ModelFacts&, Options& o) { o.topology = single_node(8); }},
          {entry(8, 1, 1), "", "S120",
           [](ModelFacts&, Options& o) { o.topology = single_node(8); }},
          {entry(9, 1, 1), "", "S120 error world_size",
           [](ModelFacts&, Options& o) { o.topology = single_node(8); }},
          {entry(8, 1, 1), "", "S120 error world_size",
           [](ModelFacts&, Options& o) {
             o.topology = single_node(8);
             o.dead_ranks = {DeviceId(7)};
           }},
          {entry(8, 4, 1), "", "S121 note " + kTp,
           [](ModelFacts&, Options& o) { o.topology = parse_topology_shorthand("gpus=2+6"); }},
          {entry(8, 2, 1), "", "S121",
           [](ModelFacts&, Options& o) { o.topology = parse_topology_shorthand("gpus=2+6"); }},
      },
      dense_facts());
}

TEST_CASE("S2xx: rank grid") {
  const std::string moe = key(kEp, "2") + key(kEtp, "1");
  check_rows(
      {
          {entry(32, 2, 4, key(kCp, "3")), "", "S201 error world_size"},
          {entry(2147483647, 2147483647, 2147483647, key(kCp, "2147483647")), "",
           "S201 error world_size"},
          {entry(16, 4, 1, key(kEp, "8")), "", "S202 error " + kEp},
          {entry(12, 2, 2, key(kEtp, "4")), "", "S202 error " + kEtp},
          {entry(32, 2, 4, key(kCp, "3") + key(kEp, "5")), "", "S202"},
          {entry(8, 1, 2, quoted_key(kOrder, "tp-cp-ep-dp-xp")), "", "S203 error " + kOrder},
          {entry(8, 1, 2, quoted_key(kOrder, "tp-dp")), "", "S204 error " + kOrder},
          {entry(16, 2, 2, key(kCp, "2") + quoted_key(kOrder, "TP-CP-EP-DP-PP")), "",
           "S205 error " + kOrder},
          {entry(16, 2, 2, key(kCp, "2") + key(kEp, "2") + quoted_key(kOrder, "tp-ep-pp-cp-dp")),
           "", "S206 error " + kOrder},
          {entry(8, 2, 1, quoted_key(kOrder, "dp-tp-cp-ep-pp")), "", "S207 note " + kOrder},
          {entry(8, 2, 1, quoted_key(kOrder, "tp-cp-ep-pp-dp")), "", "S207"},
          {entry(8, 1, 2, quoted_key(kOrder, "cp-ep-dp-pp")), "", "S208 error " + kOrder},
          {entry(8, 1, 2, quoted_key(kOrder, "cp-ep-dp-pp")), "0.13", "S208"},
          {entry(8, 1, 2, quoted_key(kOrder, "dp-pp") + key(kInstances, "3")), "", "S601"},
          {entry(7, 2, 1, key(kInstances, "4")), "", "S601"},
          {entry(8, 1, 1, key(kEp, "true") + key(kInstances, "3")), "", "S601 error " + kInstances},
          {entry(8, 1, 1, key(kCp, "true") + quoted_key(kOrder, "xp")), "", "S203 error " + kOrder},
          {entry(8, 1, 1, key(kCp, "true") + quoted_key(kOrder, "tp")), "", "S204"},
      },
      moe_facts());
}

TEST_CASE("S3xx: pipeline and virtual pipeline") {
  const auto change_layers = [](int layers) {
    return [layers](ModelFacts& facts, Options&) { facts.num_layers = layers; };
  };
  const auto mtp = [](int layers) {
    return [layers](ModelFacts& facts, Options&) { facts.num_mtp_layers = layers; };
  };
  check_rows(
      {
          {entry(8, 1, 1, key(kVirtual, "2")), "", "S301 error " + kVirtual},
          {entry(8, 1, 1, quoted_key(kLayout, "Et*16|t*16L")), "", "S301 error " + kLayout},
          {entry(8, 1, 1, key(kVirtual, "1")), "", "S301"},
          {entry(9, 1, 3), "", "S302 error " + kPp},
          {entry(9, 1, 3, key(kEmbedding, "true")), "", "S302"},
          {entry(9, 1, 3, key(kFirst, "10")), "", "S302"},
          {entry(9, 1, 3, key(kFirst, "\"10\"")), "", "S302"},
          {entry(8, 1, 4, key(kVirtual, "3")), "", "S303 error " + kVirtual},
          {entry(9, 1, 3, key(kVirtual, "3")), "", "S303"},
          {entry(8, 1, 2, key(kFirst, "16") + key(kLoss, "true")), "", "S304 error " + kLoss},
          {entry(8, 1, 2, key(kLast, "7") + key(kLoss, "true") + key(kEmbedding, "true")), "",
           "S304 error " + kEmbedding},
          {entry(8, 1, 2, key(kFirst, "40") + key(kLoss, "true")), "", "S306"},
          {entry(8, 1, 4, key(kLast, "3")), "", "S305 error " + kLast},
          {entry(8, 1, 4, key(kFirst, "8") + key(kLast, "3")), "", "S305 error " + kFirst},
          {entry(8, 1, 2, key(kFirst, "40")), "", "S306 error " + kFirst},
          {entry(8, 1, 1, key(kFirst, "16") + key(kLast, "16")), "", "S306 error " + kFirst},
          {entry(8, 1, 1, key(kLast, "32")), "", "S306"},
          {entry(8, 1, 4, key(kLast, "32")), "", "S307 error " + kLast},
          {entry(8, 1, 4, key(kLast, "32")), "0.13", "S307"},
          {entry(8, 1, 4, key(kFirst, "5") + key(kVirtual, "2")), "", "S308 error " + kFirst},
          {entry(8, 1, 4, key(kFirst, "2") + key(kVirtual, "2")), "", "S308"},
          {entry(8, 1, 4, key(kFirst, "5") + key(kVirtual, "3")), "", "S308 error " + kFirst},
          {entry(8, 1, 4, key(kLast, "8") + key(kVirtual, "2")), "0.13", "S309 error " + kLast},
          {entry(8, 1, 4, key(kLast, "8") + key(kVirtual, "2")), "", "S309 note " + kLast},
          {entry(8, 1, 4, key(kLast, "8") + key(kVirtual, "2")), "newest", "S309"},
          {entry(8, 1, 4, key(kLast, "8")), "0.13", "S309"},
          {entry(8, 1, 2, key(kFirst, "16") + key(kLast, "16")), "0.11", "S310 error " + kFirst},
          {entry(8, 1, 2, key(kFirst, "16") + key(kLast, "16")), "0.13", "S310"},
          {entry(8, 1, 8, key(kEmbedding, "true")), "0.11", "S311 error " + kPp, change_layers(15)},
          {entry(8, 1, 2, key(kEmbedding, "true") + key(kLoss, "true")), "0.11",
           "S311 error " + kPp},
          {entry(8, 1, 8, key(kEmbedding, "true")), "0.11", "S311", change_layers(7)},
          {entry(8, 1, 4, quoted_key(kLayout, "Et*8|t*8|t*8|t*8L") + key(kLast, "8")), "",
           "S320 error " + kLayout},
          {entry(8, 1, 4, quoted_key(kLayout, "Ed|t*8|t*8|t*8L") + key(kLast, "8")), "", "S321"},
          {entry(8, 1, 4, quoted_key(kLayout, "Ed|t*8|t*8|t*8L")), "", "S321 error " + kLayout},
          {entry(8, 1, 4, quoted_key(kLayout, "Ed|t*8|t*8|t*8L")), "0.11", "S321"},
          {entry(8, 1, 4, key(kLayout, "[[\"embedding\"], [\"head\"]]")), "",
           "S321 error " + kLayout},
          {entry(8, 1, 4, quoted_key(kLayout, "Et*16|t*16L")), "", "S322 error " + kLayout},
          {entry(8, 1, 2, quoted_key(kLayout, "Et*8|t*8|t*8|t*8L") + key(kVirtual, "4")), "",
           "S323 error " + kVirtual},
          {entry(8, 1, 2, quoted_key(kLayout, "Et*8|t*8|t*8|t*8L") + key(kVirtual, "2")), "",
           "S323"},
          {entry(8, 1, 2, quoted_key(kLayout, "t*16|t*16L")), "", "S324 error " + kLayout},
          {entry(8, 1, 2, quoted_key(kLayout, "Et*16|t*16")), "", "S324 error " + kLayout},
          {entry(8, 1, 2, quoted_key(kLayout, "EEt*16|t*16L")), "", "S324 error " + kLayout},
          {entry(8, 1, 1, quoted_key(kLayout, "")), "", "S324 error " + kLayout},
          {entry(8, 1, 2, quoted_key(kLayout, "Et*16|t*15L")), "", "S325 error " + kLayout},
          {entry(8, 1, 2, quoted_key(kLayout, "Et*16|t*16mL")), "", "S326 error " + kLayout},
          {entry(8, 1, 2, quoted_key(kLayout, "Et*16|t*16mL")), "", "S326 note " + kLayout, mtp(1)},
          {entry(8, 1, 2, quoted_key(kLayout, "Et*16|t*16mL")), "newest", "S326", mtp(1)},
          {entry(8, 1, 2, quoted_key(kLayout, "Et*16|t*16mL")), "0.13", "S326 error " + kLayout,
           mtp(1)},
          {entry(8, 1, 2, quoted_key(kLayout, "Et*16|mt*16L")), "", "S326 error " + kLayout,
           mtp(1)},
          {entry(8, 1, 2, quoted_key(kLayout, "Et*32m|mL")), "", "S326 error " + kLayout, mtp(2)},
          {entry(8, 1, 2, quoted_key(kLayout, "Et*16|t*16m||L")), "", "S326 error " + kLayout,
           mtp(1)},
          {entry(8, 1, 2, quoted_key(kLayout, "Et*16|t*16L")), "", "S326 error " + kLayout, mtp(1)},
          {entry(8, 1, 2, quoted_key(kLayout, "Et*16|t*16L")), "0.11", "S327 error " + kLayout},
          {entry(8, 1, 2, quoted_key(kLayout, "Et*16|t*16L")), "", "S327 note " + kLayout},
          {entry(8, 1, 2, key(kVirtual, "2")), "", "S330 note " + kVirtual},
          {entry(8, 1, 2, quoted_key(kLayout, "Et*8|t*8|t*8|t*8L")), "", "S330 note " + kLayout},
          {entry(8, 1, 2, key(kFirst, "25")), "", "S331 note " + kPp},
          {entry(8, 1, 4, key(kEmbedding, "true") + key(kLoss, "true")), "", "S331 note " + kPp,
           change_layers(2)},
          {entry(8, 1, 2, key(kFirst, "20")), "", "S331"},
          {entry(8, 1, 4, quoted_key(kLayout, "E|t*16|t*16|L")), "", "S324"},
      },
      dense_facts());
  check_rows(
      {
          {entry(8, 1, 8, key(kLoss, "true") + key(kVirtual, "2")), "0.11", "S312 warning " + kLoss,
           change_layers(31)},
          {entry(8, 1, 8, key(kLoss, "true") + key(kVirtual, "2")), "0.13", "S312",
           change_layers(31)},
      },
      moe_facts());
}

TEST_CASE("S4xx: attention, FFN, vocabulary") {
  const auto mla = [](ModelFacts& facts, Options&) {
    facts.mla = true;
    facts.heads = facts.kv_groups = 128;
    facts.q_lora = 1536;
    facts.kv_lora_and_rope = 576;
  };
  check_rows(
      {
          {entry(3, 3, 1), "", "S401 error " + kTp},
          {entry(3, 3, 1), "", "S402 error " + kTp},
          {entry(3, 3, 1), "0.13", "S403"},
          {entry(16, 16, 1), "0.13", "S403 error " + kTp},
          {entry(16, 16, 1), "", "S403 note " + kTp},
          {entry(16, 16, 1), "newest", "S403"},
          {entry(32, 32, 1), "", "S404 error " + kTp,
           [](ModelFacts& f, Options&) { f.kv_groups = 1, f.head_size = 1; }},
          {entry(16, 16, 1), "", "S404"},
          {entry(16, 16, 1), "", "S405 error " + kTp,
           [](ModelFacts& f, Options&) { f.ffn = 14337; }},
          {entry(16, 16, 1), "", "S405",
           [](ModelFacts& f, Options&) { f.ffn = 14337, f.has_dense_layer = false; }},
          {entry(16, 16, 1), "", "S406 error " + kTp,
           [](ModelFacts& f, Options&) { f.shared_ffn = 8; }},
          {entry(16, 16, 1), "", "S407 note " + kTp},
          {entry(8, 2, 1), "", "S407"},
          {entry(128, 128, 1), "0.13", "S408 error " + kTp, mla},
          {entry(128, 128, 1), "newest", "S408", mla},
          {entry(128, 128, 1), "newest", "S408 error " + kTp,
           [&](ModelFacts& f, Options& o) { mla(f, o), f.mla_local_down = true; }},
          {entry(128, 128, 1), "newest", "S402", mla},
          {entry(8, 4, 1, key(kCp, "2")), "", "S409 error " + kTp,
           [](ModelFacts& f, Options&) { f.gdn_key_heads = 4, f.gdn_value_heads = 8; }},
          {entry(8, 4, 1, key(kCp, "2")), "", "S409",
           [](ModelFacts& f, Options&) { f.gdn_key_heads = 8, f.gdn_value_heads = 8; }},
      },
      dense_facts());
  ModelFacts odd = dense_facts();
  odd.kv_groups = 5;
  odd.head_size_given = false;
  odd.hidden = 4097;
  const std::vector<std::string> lines = found(list({entry(8, 1, 1)}), odd, {});
  CHECK(std::count(lines.begin(), lines.end(), "S410 error ") == 2);
}

TEST_CASE("S5xx: experts") {
  check_rows(
      {
          {entry(8, 1, 1, key(kEp, "2")), "", "S501 error " + kEp},
          {entry(8, 2, 1, key(kEtp, "1")), "", "S509 note " + kEtp},
          {entry(8, 2, 1, key(kEtp, "2")), "", "S509"},
      },
      dense_facts());
  check_rows(
      {
          {entry(6, 1, 1, key(kEp, "3")), "", "S502 error " + kEp},
          {entry(16, 1, 1, key(kEp, "16")), "", "S502 error " + kEp},
          {entry(6, 1, 1, key(kEtp, "3")), "", "S503 error " + kEtp},
          {entry(6, 3, 1), "", "S503 error " + kTp},
          {entry(8, 1, 1), "0.11", "S504 note -",
           [](ModelFacts& f, Options&) { f.grouped_experts = false, f.expert_ffn = 512; }},
          {entry(8, 1, 1), "0.13", "S504",
           [](ModelFacts& f, Options&) { f.grouped_experts = false, f.expert_ffn = 512; }},
          {entry(8, 2, 1, key(kSequence, "false")), "", "S505 error " + kSequence},
          {entry(8, 2, 1), "", "S505"},
          {entry(8, 1, 1, key(kSequence, "false")), "", "S505"},
          {entry(8, 2, 1, key(kEtp, "1")), "0.11", "S506 error " + kEtp},
          {entry(8, 2, 1, key(kEtp, "1")), "newest", "S506"},
          {entry(8, 2, 1, key(kEtp, "1") + key(kEp, "2")), "0.11", "S506"},
          {entry(8, 2, 1), "", "S507 error " + kEtp,
           [](ModelFacts& f, Options&) { f.expert_bias = true; }},
          {entry(8, 1, 1, key(kEp, "2")), "0.13", "S508 error " + kEp,
           [](ModelFacts& f, Options&) { f.float16 = true; }},
          {entry(8, 1, 1, key(kEp, "2")), "newest", "S508",
           [](ModelFacts& f, Options&) { f.float16 = true; }},
      },
      moe_facts());
}

TEST_CASE("S6xx: optimizer, sequence and context parallelism") {
  const auto length = [](int tokens) {
    return [tokens](ModelFacts&, Options& o) { o.seq_length = tokens; };
  };
  const std::string twisted =
      key(kEp, "2") + key(kInstances, "2") + quoted_key(kOrder, "tp-cp-dp-ep-pp");
  check_rows(
      {
          {entry(8, 1, 1, key(kInstances, "3")), "", "S601 error " + kInstances},
          {entry(8, 2, 1, key(kCp, "2") + key(kInstances, "4")), "", "S601"},
          {entry(8, 1, 1, key(kEp, "4") + key(kInstances, "4")), "", "S602 error " + kInstances},
          {entry(8, 1, 1, key(kEp, "4") + key(kInstances, "4")), "0.11", "S602"},
          {entry(8, 1, 1, key(kInstances, "2") + key(kDistributed, "false")), "",
           "S603 error " + kInstances},
          {entry(8, 1, 1, key(kInstances, "8")), "", "S604 note " + kInstances},
          {entry(8, 8, 1), "", "S604"},
          {entry(8, 1, 1, key(kDistributed, "false")), "", "S605 note " + kDistributed},
          {entry(8, 8, 1, key(kDistributed, "false")), "", "S605"},
          {entry(16, 1, 1, twisted), "", "S606 warning " + kInstances},
          {entry(16, 1, 1, twisted), "0.11", "S606"},
          {entry(16, 1, 1, key(kEp, "2") + key(kInstances, "2")), "", "S606"},
          {entry(8, 1, 1, key(kSequence, "true")), "", "S651 warning " + kSequence},
          {entry(8, 2, 1, key(kSequence, "true")), "", "S651"},
          {entry(8, 1, 1, key(kCp, "2")), "", "S652 error " + kCp, length(4098)},
          {entry(8, 1, 1, key(kCp, "2")), "", "S652", length(4096)},
          {entry(8, 8, 1), "", "S652 error " + kCp, length(4097)},
          {entry(8, 8, 1, key(kSequence, "false")), "", "S652", length(4097)},
          {entry(8, 1, 1, key(kCp, "2")), "0.13", "S653 warning " + kCp,
           [](ModelFacts& f, Options&) { f.num_mtp_layers = 1; }},
          {entry(8, 1, 1, key(kCp, "2")), "newest", "S653",
           [](ModelFacts& f, Options&) { f.num_mtp_layers = 1; }},
      },
      moe_facts());
}

TEST_CASE("S9xx: what ElasticMegatron would refuse") {
  const auto elastic = [](ModelFacts&, Options& o) { o.compat_elastic = true; };
  check_rows(
      {
          {entry(6, 3, 1), "", "S901 note " + kTp, elastic},
          {entry(6, 3, 1), "", "S901"},
          {entry(9, 1, 3), "", "S902 note " + kPp, elastic},
          {entry(8, 1, 4, key(kVirtual, "2")), "", "S902 note " + kVirtual, elastic},
          {entry(8, 1, 4, key(kVirtual, "1")), "", "S902", elastic},
          {entry(8, 1, 4, key(kLoss, "false")), "", "S902", elastic},
          {entry(8, 2, 1), "", "S903 note " + kTp, elastic},
          {entry(8, 1, 1, key(kInstances, "2")), "", "S904 note " + kInstances, elastic},
          {entry(8, 1, 1, key(kInstances, "2") + key(kCp, "2")), "", "S904", elastic},
          {entry(8, 1, 1, key(kDistributed, "false")), "", "S906 note " + kDistributed, elastic},
          {entry(8, 1, 1, key(kSequence, "true")), "", "S907 note " + kSequence, elastic},
      },
      moe_facts());
}

TEST_CASE("messages state what is required and found, and how to mend it") {
  struct Message {
    std::string text, rule, message, fix;
    int layers = 32;
  };
  const std::vector<Message> table{
      {entry(32, 2, 4, key(kCp, "3")), "S201",
       "tp·pp·cp = 2·4·3 = 24 must divide world_size, found 32", "set world_size to 24 or 48"},
      {entry(16, 4, 1, key(kEp, "8")), "S202",
       "etp·ep·pp = 4·8·1 = 32 must divide world_size, found 16",
       "set expert_tensor_parallel_size to one of 1, 2"},
      {entry(64, 1, 8), "S302", "94 layers do not divide into 8 stages (remainder 6)",
       "set num_layers_in_first_ and _last_pipeline_stage to 11, or account for the embedding and "
       "the loss (94+2 = 96 = 8·12), or give a pipeline_model_parallel_layout",
       94},
      {entry(8, 1, 4, key(kVirtual, "3")), "S303",
       "8 layers a stage do not divide into 3 virtual stages", "choose one of 1, 2, 4, 8"},
      {entry(64, 1, 8, key(kFirst, "13") + key(kLast, "10")), "S305",
       "71 layers left for 6 middle stages do not divide (remainder 5)",
       "set num_layers_in_first_pipeline_stage to 12 or 18", 94},
      {entry(8, 1, 2, key(kFirst, "20") + key(kLast, "20")), "S306",
       "first 20 + last 20 = 40 layers in 2 stages, the model has 32",
       "set num_layers_in_last_pipeline_stage to 12"},
      {entry(8, 1, 4, key(kLast, "8") + key(kVirtual, "2")), "S309",
       "0.11 and 0.13 would refuse this: only the last stage is given with virtual stages: stages "
       "0 "
       "and 1 get the same layers",
       "set num_layers_in_first_pipeline_stage too, to 8"},
      {entry(8, 1, 1, key("name", "\"a\"") + key("tensor_parallel_size", "1")), "S112",
       "unknown key \"tensor_parallel_size\"", "write \"tensor_model_parallel_size\""},
  };
  for (const Message& row : table) {
    CAPTURE(row.text);
    ModelFacts facts = dense_facts();
    facts.num_layers = row.layers;
    const std::vector<Diagnostic> findings = check(list({row.text}), "l.json", facts, {});
    const auto it = std::find_if(findings.begin(), findings.end(),
                                 [&](const Diagnostic& d) { return d.rule == row.rule; });
    REQUIRE(it != findings.end());
    CHECK(it->message == row.message);
    CHECK(it->fix == row.fix);
  }
}

TEST_CASE("findings stand where the text stands, in its order") {
  const std::string text = "[\n " + entry(9, 1, 3) + ",\n " + entry(8, 3, 1) + "\n]";
  const std::vector<Diagnostic> findings = check(text, "l.json", dense_facts(), {});
  REQUIRE(findings.size() >= 2);
  CHECK(findings[0].rule == "S302");
  CHECK(findings[0].line == 2);
  CHECK(findings[0].column == static_cast<int>(text.find("3}") - text.find('{')) + 2);
  CHECK(std::is_sorted(findings.begin(), findings.end(),
                       [](const Diagnostic& a, const Diagnostic& b) { return a.line < b.line; }));
  CHECK(exit_status(findings, false) == 1);
}

TEST_CASE("a world size of 2147483647 is answered at once") {
  for (const std::string& more :
       {std::string(), key(kInstances, "2147483647"),
        key(kInstances, "2147483647") + quoted_key(kOrder, "tp-dp-ep-cp-pp")}) {
    const std::vector<Diagnostic> findings =
        check(list({entry(2147483647, 1, 1, more), entry(2147483647, 1, 2147483647),
                    entry(2147483646, 1, 2, key(kEp, "2") + key(kInstances, "1073741823"))}),
              "l.json", moe_facts(), {});
    CHECK_FALSE(findings.empty());
  }
}

}  // namespace
}  // namespace plan::check
