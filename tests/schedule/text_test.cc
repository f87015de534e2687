#include "libplan/schedule/text.h"

#include <catch2/catch.hpp>

#include "libplan/base/error.h"
#include "libplan/schedule/canonical.h"
#include "tests/schedule/sample_schedules.h"

namespace plan {
namespace {

TEST_CASE("one line per storage, piece and op") {
  CHECK(to_text(four_by_four()) ==
        "schedule version 1, algorithm \"direct\", digest " + digest(four_by_four()) + R"(
1 windows of at most 256 messages, 2 ranks, 1 tensors, programs of 2 ranks
rank 0: worker 0, node 0, source, rollback until commit
rank 1: worker 1, node 0, target, rollback until commit
tensor 0: w [4, 4]
program of rank 0
  storage 0: source, device, fp32, 64 bytes, alignment 256, "w", state param
    piece w [0, 4) x [0, 4) at element 0, strides [4, 1]
  window 0
    send to 1 message 0, 16 bytes: 0@32+8 2x/16
program of rank 1
  storage 0: target, device, fp32, 16 bytes, alignment 256, "w", state param
    piece w [2, 4) x [0, 2) at element 0, strides [2, 1]
  window 0
    allocate 0
    receive from 0 message 0, 16 bytes: 0@0+16
)");
}

TEST_CASE("all kinds of ops show") {
  const std::string text = to_text(every_field(), {RankId(0), 0});
  for (const char* line : {
           "rank 0: worker 2, node 0, source and target, rollback until window 3\n",
           "tensor 1: embedding.padding [2], padding\n",
           "    before copy 1..2@0+8 2x/32 2x/16 -> 4..5@32+32\n",
           "    before fill 4..5@0+4 4x/8 with 18446744073709551615 as 4 bytes\n",
           "    before convert fp32 1@0+64 -> bf16 3@0+2 4x/8 4x/2\n",
           "    send to 1 message 5, 48 bytes: 1..2@0+16, 6@80+16\n",
           "  window 3 after 0\n",
           "    receive from 2 message 7, 16 bytes: 6@0+16\n",
           "    after fill 8@0+8 with 0 as 8 bytes\n",
           "    free 1, 2, 6\n",
           "bytes, alignment 256, \"decoder.w\", state param, alias of 0\n",
           "    piece step scalar at element 1, strides []\n",
       }) {
    CHECK_THAT(text, Catch::Contains(line));
  }
  CHECK_THAT(text, !Catch::Contains("program of rank 1") && !Catch::Contains("rank 1: worker"));
}

TEST_CASE("rank filter and line limit") {
  CHECK_THROWS_WITH(to_text(every_field(), {RankId(9), 0}), Catch::Contains("found rank 9"));
  const std::string text = to_text(four_by_four(), {std::nullopt, 3});
  CHECK_THAT(text, Catch::EndsWith("rollback until commit\n... 13 more lines\n"));
  CHECK(to_text(four_by_four(), {std::nullopt, 16}) == to_text(four_by_four()));
}

}  // namespace
}  // namespace plan
