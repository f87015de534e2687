#include "libplan/strategy/pipeline_split.h"

#include <catch2/catch.hpp>
#include <string>

#include "libplan/base/error.h"

namespace plan {
namespace {

constexpr MegatronVersion k011 = MegatronVersion::V011;
constexpr MegatronVersion k013 = MegatronVersion::V013;
constexpr MegatronVersion k020 = MegatronVersion::V020;

struct Split {
  std::int32_t layers, stages;
  std::string more;  // further keys of the entry
  MegatronVersion version;
  std::string expected;  // "first+count" of each position, or a part of the error
};

std::vector<StageSpan> split(const Split& row) {
  const std::string text = R"([{"world_size": 64, "tensor_model_parallel_size": 1,
                               "pipeline_model_parallel_size": )" +
                           std::to_string(row.stages) + row.more + "}]";
  return pipeline_split(parse_strategy_list(text, "list.json")[0], row.layers, row.version);
}

const std::string kVpp2 = R"(, "virtual_pipeline_model_parallel_size": 2)";
const std::string kEmbedding = R"(, "account_for_embedding_in_pipeline_split": true)";
const std::string kLoss = R"(, "account_for_loss_in_pipeline_split": true)";

std::string first(int n) {
  return R"(, "num_layers_in_first_pipeline_stage": )" + std::to_string(n);
}
std::string last(int n) { return R"(, "num_layers_in_last_pipeline_stage": )" + std::to_string(n); }
std::string layout(const std::string& text) {
  return R"(, "pipeline_model_parallel_layout": ")" + text + "\"";
}

// Rows marked "dumped" are what the real code builds (tests/golden/megatron).
TEST_CASE("pipeline positions hold the right layers") {
  const std::vector<Split> table{
      {8, 1, "", k020, "0+8"},
      {6, 4, kEmbedding + kLoss, k013, "0+1 1+2 3+2 5+1"},                  // dumped
      {7, 4, kVpp2 + kLoss, k013, "0+1 1+1 2+1 3+1 4+1 5+1 6+1 7+0"},       // dumped
      {14, 4, kVpp2 + last(2), k020, "0+2 2+2 4+2 6+1 7+2 9+2 11+2 13+1"},  // dumped
      {14, 4, kVpp2 + last(2), k013, "0+2 0+2 2+2 4+1 7+2 7+2 9+2 11+1"},   // dumped
      {8, 4, layout("Ettt|tt|tt|tL"), k013, "0+3 3+2 5+2 7+1"},             // dumped
      {8, 4, kVpp2 + layout("E|t|tt|t|tt|t|t|L"), k013,
       "0+0 0+1 1+2 3+1 4+2 6+1 7+1 8+0"},                                            // dumped
      {8, 2, kVpp2, k013, "0+2 2+2 4+2 6+2"},                                         // dumped
      {8, 3, first(2), k013, "0+2 2+3 5+3"},                                          // dumped
      {8, 4, first(3) + last(1), k013, "0+3 3+2 5+2 7+1"},                            // dumped
      {12, 4, kVpp2 + first(2) + last(2), k013, "0+1 1+2 3+2 5+1 6+1 7+2 9+2 11+1"},  // dumped
      {8, 2, first(3) + last(5), k020, "0+3 3+5"},
      {8, 2, first(3) + last(5), k011, "divides by zero"},
      {8, 1, last(8), k013, "0+8"},
      {8, 1, last(8), k011, "divides by zero"},
      {8, 1, last(7), k013, "do not make the model's 8"},
      {8, 2, first(3) + last(4), k013, "do not make the model's 8"},
      {8, 2, first(9), k013, "do not make the model's 8"},
      {8, 1, first(4) + last(4), k013, "do not make the model's 8"},
      {8, 4, first(4) + last(4), k013, "0+4 4+0 4+0 4+4"},
      {8, 4, first(4) + last(4), k020, "no layer is left for 2 middle stages"},
      {8, 4, first(1), k020, "7 layers left do not divide into 3"},
      {8, 2, kVpp2 + first(3), k020, "3 layers of stage 0 do not divide into 2"},
      {8, 2, kLoss + first(3), k020, "cannot be combined"},
      {8, 3, "", k020, "8 layers do not divide into 3 stages"},
      {6, 2, kVpp2, k020, "3 layers a stage do not divide into 2"},
      {8, 1, kVpp2, k020, "virtual stages need"},
      {2, 4, kEmbedding + kLoss, k020, "0+0 0+1 1+1 2+0"},
      {30, 8, kEmbedding + kLoss, k011, "0+3 3+4 7+4 11+4 15+4 19+4 23+4 27+3"},
      {14, 8, kEmbedding + kLoss, k011, "0.11 wants pp-2 = 6 to divide 14"},
      {8, 2, kEmbedding + kLoss, k011, "0.11 wants pp-2 = 0"},
      {8, 2, kEmbedding + kLoss, k013, "0+4 4+4"},
      {8, 2, layout("Et*4|t*4L"), k011, "0.11 knows no"},
      {8, 2, layout("Et*4|t*3L"), k020, "holds 7 decoder layers, the model has 8"},
      {8, 2, layout("Et*4|t*4|L"), k020, "the layout has 3 stages, pp is 2"},
      {8, 1, layout("Et*4|t*4L"), k020, "virtual stages need"},
      {8, 2, layout("E|t*4|t*4|L") + R"(, "virtual_pipeline_model_parallel_size": 4)", k020,
       "implies 2 virtual stages, found 4"},
      {8, 2, layout("Et*4|t*4L") + first(4), k020, "cannot be combined"},
      {8, 1, layout("Et*8L"), k020, "0+8"},
  };
  for (const Split& row : table) {
    CAPTURE(row.layers, row.stages, row.more);
    std::string found;
    try {
      for (const StageSpan& span : split(row)) {
        found += (found.empty() ? "" : " ") + std::to_string(span.first_layer) + "+" +
                 std::to_string(span.num_layers);
        CHECK(span.position == span.chunk * row.stages + span.stage);
      }
      CHECK(found == row.expected);
    } catch (const Error& error) {
      CHECK_THAT(error.what(), Catch::Contains(row.expected));
    }
  }
}

TEST_CASE("pipelines beyond any machine are refused before anything is built") {
  Strategy s;
  s.world_size = INT32_MAX;
  s.pipeline_model_parallel_size = INT32_MAX;
  s.num_layers_in_first_pipeline_stage = 8;
  CHECK_THROWS_WITH(pipeline_split(s, 8, k013), Catch::Contains("positions"));
}

}  // namespace
}  // namespace plan
