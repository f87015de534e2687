#include "libplan/strategy/rank_grid.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "libplan/base/error.h"
#include "libplan/base/json_tree.h"
#include "libplan/strategy/optimizer_partners.h"
#include "tests/strategy/test_data.h"

namespace plan {
namespace {

using Groups = std::vector<std::vector<std::int32_t>>;

// Megatron's names of the groups, and ours.
const std::map<std::string, std::string> kKinds{
    {"TENSOR_MODEL_PARALLEL_GROUP", "tp"},
    {"PIPELINE_MODEL_PARALLEL_GROUP", "pp"},
    {"CONTEXT_PARALLEL_GROUP", "cp"},
    {"DATA_PARALLEL_GROUP", "dp"},
    {"DATA_PARALLEL_GROUP_WITH_CP", "dp-cp"},
    {"MODEL_PARALLEL_GROUP", "tp-pp"},
    {"TENSOR_AND_CONTEXT_PARALLEL_GROUP", "tp-cp"},
    {"TENSOR_AND_DATA_PARALLEL_GROUP", "tp-dp"},
    {"TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP", "tp-dp-cp"},
    {"EXPERT_MODEL_PARALLEL_GROUP", "ep"},
    {"EXPERT_TENSOR_PARALLEL_GROUP", "etp"},
    {"EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", "etp-ep"},
    {"EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP", "etp-ep-pp"},
    {"EXPERT_DATA_PARALLEL_GROUP", "edp"},
    {"INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP", "intra-dp-cp"},
    {"HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L0", "intra-edp"},
    {"HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L1", "inter-edp"},
    {"INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP", "instance"},
    {"EMBEDDING_GROUP", "embedding"},
    {"POSITION_EMBEDDING_GROUP", "position-embedding"}};

Strategy read_strategy(const JsonCursor& entry) {
  const JsonCursor sizes = entry.at("strategy");
  const auto size = [&](const char* key) { return sizes.at(key).as_int32(1, INT32_MAX); };
  Strategy s;
  s.world_size = entry.at("world").as_int32(1, INT32_MAX);
  s.tensor_model_parallel_size = size("tp");
  s.pipeline_model_parallel_size = size("pp");
  s.context_parallel_size = size("cp");
  s.expert_model_parallel_size = size("ep");
  if (sizes.find("etp")) s.expert_tensor_parallel_size = size("etp");
  s.num_distributed_optimizer_instances = size("ndo");
  s.order = sizes.at("order").as_string();
  return s;
}

Groups read_groups(const JsonCursor& list) {
  Groups groups;
  for (const JsonCursor& group : list.elements()) {
    std::vector<std::int32_t>& ranks = groups.emplace_back();
    for (const JsonCursor& rank : group.elements()) ranks.push_back(rank.as_int32(0, INT32_MAX));
  }
  return groups;
}

// Index of `rank` in the group that holds it.
std::int32_t index_in(const Groups& groups, std::int32_t rank) {
  for (const std::vector<std::int32_t>& group : groups) {
    const auto it = std::find(group.begin(), group.end(), rank);
    if (it != group.end()) return static_cast<std::int32_t>(it - group.begin());
  }
  return -1;
}

void check_coords(const RankGrid& grid) {
  const auto check = [&](const char* kind, std::int32_t GridCoords::*member) {
    const Groups groups = grid.groups(kind);
    for (std::int32_t rank = 0; rank < grid.world_size(); ++rank) {
      CHECK(grid.coords(rank).*member == index_in(groups, rank));
    }
  };
  check("tp", &GridCoords::tp);
  check("cp", &GridCoords::cp);
  check("dp", &GridCoords::dp);
  check("pp", &GridCoords::pp);
  check("etp", &GridCoords::etp);
  check("ep", &GridCoords::ep);
  check("edp", &GridCoords::edp);
  check("dp-cp", &GridCoords::dp_cp);
  check("intra-dp-cp", &GridCoords::intra_dp_cp);
  check("intra-edp", &GridCoords::intra_edp);
}

TEST_CASE("groups and coordinates are Megatron's, for every dumped strategy") {
  const JsonDocument document =
      parse_json(read_test_file("golden/megatron/rank_groups.json"), "rank_groups.json");
  int refused = 0;
  int built = 0;
  std::set<std::string> seen;
  for (const JsonCursor& entry : JsonCursor::root(document).at("strategies").elements()) {
    const Strategy s = read_strategy(entry);
    CAPTURE(to_json(s));
    if (entry.find("error")) {
      ++refused;
      CHECK_THROWS_WITH(RankGrid::make(s, MegatronVersion::V013),
                        Catch::Contains("order must end in pp"));
      continue;
    }
    ++built;
    const RankGrid grid = RankGrid::make(s, MegatronVersion::V013);
    for (const auto& [name, groups] : entry.at("groups").members()) {
      CAPTURE(name);
      REQUIRE(kKinds.contains(name));
      seen.insert(name);
      CHECK(grid.groups(kKinds.at(name)) == read_groups(groups));
    }
    check_coords(grid);
  }
  CHECK(refused == 5);
  CHECK(built == 46);
  CHECK(seen.size() == kKinds.size());
}

// The partners of each rank: ranks at the same place of the runs into which its group is cut.
std::vector<std::vector<std::int32_t>> partners_of(const RankGrid& grid, const char* kind) {
  std::vector<std::vector<std::int32_t>> partners(static_cast<std::size_t>(grid.world_size()));
  for (const std::vector<std::int32_t>& group : grid.groups(kind)) {
    const std::size_t length = group.size() / static_cast<std::size_t>(grid.instances());
    for (std::size_t i = 0; i < group.size(); ++i) {
      for (std::size_t at = i % length; at < group.size(); at += length) {
        partners[static_cast<std::size_t>(group[i])].push_back(group[at]);
      }
    }
  }
  return partners;
}

TEST_CASE("partner mismatches are found exactly where the groups differ") {
  std::vector<std::string> tokens{"cp", "dp", "ep", "pp", "tp"};
  int same = 0;
  int different = 0;
  do {
    for (const auto& [tp, cp, ep, etp] :
         {std::array{1, 1, 2, 1}, {1, 2, 2, 1}, {2, 1, 2, 2}, {2, 3, 4, 1}, {1, 2, 3, 1}}) {
      for (const std::int32_t instances : {2, 3, 4}) {
        Strategy s;
        s.world_size = 24;
        s.tensor_model_parallel_size = tp;
        s.context_parallel_size = cp;
        s.expert_model_parallel_size = ep;
        s.expert_tensor_parallel_size = etp;
        s.num_distributed_optimizer_instances = instances;
        s.order = tokens[0];
        for (std::size_t i = 1; i < tokens.size(); ++i) s.order += "-" + tokens[i];
        const std::int32_t dp_cp = 24 / tp;
        if (dp_cp % instances != 0 || 24 / (ep * etp) % instances != 0) continue;
        const RankGrid grid = RankGrid::make(s, MegatronVersion::V020);
        const bool equal = partners_of(grid, "dp-cp") == partners_of(grid, "edp");
        CAPTURE(s.order, tp, cp, ep, etp, instances);
        const std::optional<PartnerMismatch> mismatch = find_partner_mismatch(grid);
        CHECK(mismatch.has_value() == !equal);
        ++(equal ? same : different);
        if (mismatch) CHECK(mismatch->dense != mismatch->expert);
      }
    }
  } while (std::next_permutation(tokens.begin(), tokens.end()));
  CHECK(same > 100);
  CHECK(different > 100);
}

Strategy sized(std::int32_t world, std::int32_t tp, std::int32_t pp) {
  Strategy s;
  s.world_size = world;
  s.tensor_model_parallel_size = tp;
  s.pipeline_model_parallel_size = pp;
  return s;
}

TEST_CASE("0.11 does not cut experts into instances") {
  Strategy s = sized(8, 1, 1);
  s.expert_model_parallel_size = 4;
  s.num_distributed_optimizer_instances = 4;
  CHECK_THROWS_WITH(RankGrid::make(s, MegatronVersion::V013),
                    Catch::Contains("4 optimizer instances must divide expert DP = 2"));
  const RankGrid grid = RankGrid::make(s, MegatronVersion::V011);
  CHECK(grid.dense_shards() == 2);
  CHECK(grid.expert_shards() == 2);
  CHECK(grid.coords(5).expert_instance == 0);
  CHECK(grid.coords(5).dense_instance == 2);
  CHECK(grid.groups("inter-edp") == Groups{{0, 2, 4, 6}, {1, 3, 5, 7}});
}

TEST_CASE("sizes that do not fit are refused") {
  CHECK_THROWS_WITH(RankGrid::make(sized(8, 3, 1), MegatronVersion::V020),
                    Catch::Contains("tp*pp*cp = 3 must divide world_size, found 8"));
  Strategy s = sized(16, 1, 1);
  s.expert_model_parallel_size = 32;
  CHECK_THROWS_WITH(RankGrid::make(s, MegatronVersion::V020),
                    Catch::Contains("etp*ep*pp = 32 must divide world_size, found 16"));
  s = sized(8, 1, 1);
  s.num_distributed_optimizer_instances = 3;
  CHECK_THROWS_WITH(RankGrid::make(s, MegatronVersion::V020),
                    Catch::Contains("3 optimizer instances must divide dp*cp = 8"));
  s = sized(INT32_MAX, INT32_MAX, INT32_MAX);
  s.context_parallel_size = INT32_MAX;
  CHECK_THROWS_AS(RankGrid::make(s, MegatronVersion::V020), Error);
}

TEST_CASE("a world of 2^31 - 1 ranks has coordinates") {
  const RankGrid grid = RankGrid::make(sized(INT32_MAX, 1, 1), MegatronVersion::V020);
  CHECK(grid.coords(INT32_MAX - 1).dp_cp == INT32_MAX - 1);
}

TEST_CASE("orders that are refused") {
  struct Row {
    std::string order;
    MegatronVersion version;
    std::string rule;  // empty: accepted
  };
  // tp 2, cp 2, pp 2, ep 2, etp 1 of 16 ranks.
  const std::vector<Row> table{
      {"tp-cp-ep-dp-pp", MegatronVersion::V011, ""},
      {"TP-cp-EP-dp-pp", MegatronVersion::V020, ""},
      {"tp-cp-ep-dp-PP", MegatronVersion::V020, "S205"},
      {"tp-cp-dp-pp", MegatronVersion::V020, "S204"},
      {"tp-cp-ep-dp", MegatronVersion::V020, "S204"},
      {"tp-cp-ep-dp-pp-gtp_remat", MegatronVersion::V013, "S203"},
      {"gtp_remat-tp-cp-ep-dp-pp", MegatronVersion::V020, ""},
      {"tp-cp-ep-dp-pp-", MegatronVersion::V020, "S203"},
      {"", MegatronVersion::V020, "S203"},
      {"tp--cp-ep-dp-pp", MegatronVersion::V020, "S203"},
      {"tp-cp-ep-dp-pp-tp", MegatronVersion::V020, "S203"},
      {"tp cp ep dp pp", MegatronVersion::V020, "S203"},
  };
  for (const Row& row : table) {
    CAPTURE(row.order);
    Strategy s = sized(16, 2, 2);
    s.context_parallel_size = 2;
    s.expert_model_parallel_size = 2;
    s.expert_tensor_parallel_size = 1;
    s.order = row.order;
    const RankOrder order = resolve_order(s, row.version);
    CHECK((order.fault ? order.fault->rule : "") == row.rule);
    if (row.rule.empty()) CHECK(order.tokens.size() == 5);
  }
  Strategy s = sized(8, 1, 2);
  s.order = "cp-ep-dp-pp";
  CHECK(resolve_order(s, MegatronVersion::V020).fault->rule == "S208");
  CHECK_FALSE(resolve_order(s, MegatronVersion::V013).fault);
  s = sized(16, 2, 2);
  s.context_parallel_size = 2;
  s.expert_model_parallel_size = 2;
  s.order = "tp-ep-pp-cp-dp";  // dense pipelines 2 apart, expert pipelines 4 apart
  CHECK(resolve_order(s, MegatronVersion::V020).fault->rule == "S206");
}

}  // namespace
}  // namespace plan
