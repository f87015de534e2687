// Sizes of the flat buffers, by closed arithmetic, against every layout dumped from Megatron-Core.
#include <catch2/catch.hpp>

#include "libplan/strategy/stage_memory.h"
#include "tests/layout/golden_case.h"

namespace plan {
namespace {

// Elements of the dense and the expert buffers of one rank, over its chunks.
StageElements dumped_elements(const GoldenCase& golden, const JsonCursor& rank) {
  const auto buffers = golden.root().at("buffer_defs").elements();
  const auto params = golden.root().at("param_defs").elements();
  StageElements sum;
  for (const JsonCursor& chunk : rank.at("chunks").elements()) {
    for (const JsonCursor& row : chunk.at("buffers").elements()) {
      const auto index = row.elements()[0].as_int32(0, INT32_MAX);
      const JsonCursor& buffer = buffers[static_cast<std::size_t>(index)];
      const bool expert = buffer.at("kind").as_string() == "expert";
      (expert ? sum.expert_buffer : sum.dense_buffer) += buffer.at("numel").as_int64(0, INT64_MAX);
    }
    for (const JsonCursor& row : chunk.at("params").elements()) {
      const auto index = row.elements()[0].as_int32(0, INT32_MAX);
      std::int64_t numel = 1;
      for (const std::int64_t extent :
           read_integers(params[static_cast<std::size_t>(index)].at("shape"))) {
        numel *= extent;
      }
      sum.parameters += numel;
    }
  }
  return sum;
}

TEST_CASE("stage memory is what Megatron-Core allocates") {
  int ranks = 0;
  for (const std::string& name : golden_case_names()) {
    const GoldenCase golden = read_golden_case(name);
    CAPTURE(name);
    BufferOptions options;
    options.overlap_grad_reduce = golden.options.overlap_grad_reduce;
    options.ddp_bucket_size = golden.options.ddp_bucket_size;
    options.pad_for_high_busbw = golden.options.ddp_pad_buckets_for_high_nccl_busbw;
    const auto stages =
        stage_elements(golden.model, golden.strategy, golden.options.version, options);
    REQUIRE(stages);
    for (const JsonCursor& rank : golden.root().at("ranks").elements()) {
      const auto stage = rank.at("coords").at("pp").as_int32(0, INT32_MAX);
      const StageElements dumped = dumped_elements(golden, rank);
      const StageElements& ours = (*stages)[static_cast<std::size_t>(stage)];
      CHECK(ours.dense_buffer == dumped.dense_buffer);
      CHECK(ours.expert_buffer == dumped.expert_buffer);
      CHECK(ours.parameters == dumped.parameters);
      ++ranks;
    }
  }
  CHECK(ranks > 200);
}

}  // namespace
}  // namespace plan
