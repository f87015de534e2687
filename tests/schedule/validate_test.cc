#include "libplan/schedule/validate.h"

#include <catch2/catch.hpp>
#include <functional>
#include <limits>

#include "libplan/base/error.h"
#include "tests/schedule/sample_schedules.h"

namespace plan {
namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
constexpr std::int32_t kHuge32 = std::numeric_limits<std::int32_t>::max();

struct Fault {
  std::string expected;  // part of the message
  std::function<void(ir::Schedule&)> plant;
};

ir::Program& p0(ir::Schedule& s) { return s.programs[0]; }
ir::Storage& storage(ir::Schedule& s, std::size_t i) { return p0(s).storages[i]; }

void expect_refused(const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    ir::Schedule schedule = every_field();
    fault.plant(schedule);
    INFO(fault.expected);
    try {
      validate(schedule);
      FAIL_CHECK("accepted");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::BadInput);
      CHECK_THAT(error.what(), Catch::Contains(fault.expected));
    }
  }
}

TEST_CASE("the samples are valid") {
  CHECK_NOTHROW(validate(every_field()));
  CHECK_NOTHROW(validate(four_by_four()));
  CHECK_NOTHROW(validate(ir::Schedule{}));
  for (std::uint32_t seed = 0; seed < 50; ++seed) CHECK_NOTHROW(validate(random_schedule(seed)));
}

TEST_CASE("faults of the head are named") {
  expect_refused({
      {"digests, model: expected 64 lower-case hex digits or nothing, found \"xyz\"",
       [](ir::Schedule& s) { s.digests.model = "xyz"; }},
      {"algorithm: expected a name in UTF-8", [](ir::Schedule& s) { s.algorithm = "\xFF"; }},
      {"window_ops: expected 1 to 1048576, found 0", [](ir::Schedule& s) { s.window_ops = 0; }},
      {"num_windows: expected a number >= 0, found -1",
       [](ir::Schedule& s) { s.num_windows = -1; }},
      {"ranks, entry 1: expected rank 1, found rank 0",
       [](ir::Schedule& s) { s.ranks[1].rank = RankId(0); }},
      {"ranks, entry 1: expected a worker above 2, found worker 2",
       [](ir::Schedule& s) { s.ranks[1].worker = DeviceId(2); }},
      {"ranks, entry 2: expected a node >= 0, found node -1",
       [](ir::Schedule& s) { s.ranks[2].node = NodeId(); }},
      {"below the 5 windows, found 5",
       [](ir::Schedule& s) { s.ranks[2].rollback_until_window = 5; }},
      {"tensors, entry 0: expected 0 to 6 dimensions, found 7",
       [](ir::Schedule& s) { s.tensors[0].shape.count = 7; }},
      {"tensors, entry 0: expected an extent >= 0, found -4",
       [](ir::Schedule& s) { s.tensors[0].shape[1] = -4; }},
      {"tensors, entry 0: expected 0 beyond the last dimension",
       [](ir::Schedule& s) { s.tensors[0].shape[2] = 1; }},
      {"states, entry 2: expected a name that no other state has, found \"param\"",
       [](ir::Schedule& s) { s.states[2] = "param"; }},
      {"programs: expected a rank above 0 and below 3, found rank 0",
       [](ir::Schedule& s) { s.programs[1].rank = RankId(0); }},
      {"found rank 3", [](ir::Schedule& s) { s.programs[2].rank = RankId(3); }},
      {"at most 3 programs", [](ir::Schedule& s) { s.programs.resize(4); }},
  });
}

TEST_CASE("faults of storages and pieces are named") {
  expect_refused({
      {"rank 0, storages, entry 0: expected a known role, found role 4",
       [](ir::Schedule& s) { storage(s, 0).role = static_cast<ir::StorageRole>(4); }},
      {"expected a known memory kind",
       [](ir::Schedule& s) { storage(s, 0).memory = static_cast<MemoryKind>(3); }},
      {"expected a known dtype, found dtype 12",
       [](ir::Schedule& s) { storage(s, 0).dtype = static_cast<Dtype>(12); }},
      {"found -1 bytes", [](ir::Schedule& s) { storage(s, 0).size_bytes = -1; }},
      {"a sum of sizes that fits 64 bits",
       [](ir::Schedule& s) { storage(s, 1).size_bytes = kHuge; }},
      {"power of two up to 1073741824, found 0",
       [](ir::Schedule& s) { storage(s, 0).alignment = 0; }},
      {"found 48", [](ir::Schedule& s) { storage(s, 0).alignment = 48; }},
      {"expected one of the 3 states, found state 3",
       [](ir::Schedule& s) { storage(s, 0).state = StateId(3); }},
      {"expected one of the 3 states, found state -1",
       [](ir::Schedule& s) { storage(s, 0).state = StateId(); }},
      {"expected no state (-1) for scratch",
       [](ir::Schedule& s) { storage(s, 6).state = StateId(0); }},
      {"expected no binding key for scratch, found \"x\"",
       [](ir::Schedule& s) { storage(s, 6).binding_key = "x"; }},
      {"storages, entry 1: expected a binding key in UTF-8",
       [](ir::Schedule& s) { storage(s, 1).binding_key = "\xC0\x80"; }},
      {"storages, entry 4: expected a binding key that no other storage",
       [](ir::Schedule& s) { storage(s, 4).state = StateId(0); }},
      {"expected alias_of on a target storage only",
       [](ir::Schedule& s) { storage(s, 1).alias_of = StorageId(0); }},
      {"expected alias_of a source storage of this rank, found storage 3",
       [](ir::Schedule& s) { storage(s, 3).alias_of = StorageId(3); }},
      {"expected alias_of a source storage of this rank, found storage 99",
       [](ir::Schedule& s) { storage(s, 3).alias_of = StorageId(99); }},
      {"expected an alias of the source's size, 32 bytes, found 48",
       [](ir::Schedule& s) { storage(s, 3).size_bytes = 48; }},
      {"expected a source that no other storage takes over",
       [](ir::Schedule& s) {
         storage(s, 4).size_bytes = 32;
         storage(s, 4).pieces = {};
         storage(s, 4).alias_of = StorageId(0);
       }},
      {"storages, entry 0, pieces: expected a range inside the 4 pieces, found first 3, count 2",
       [](ir::Schedule& s) {
         storage(s, 0).pieces = {3, 2};
       }},
      {"first -1, count 1",
       [](ir::Schedule& s) {
         storage(s, 0).pieces = {-1, 1};
       }},
      {"first 2147483647, count 2147483647",
       [](ir::Schedule& s) {
         storage(s, 0).pieces = {kHuge32, kHuge32};
       }},
      {"storages, entry 0, piece 0: expected one of the 3 tensors, found tensor 3",
       [](ir::Schedule& s) { p0(s).pieces[0].tensor = TensorId(3); }},
      {"expected a box and strides of 2 dimensions, found 1 and 2",
       [](ir::Schedule& s) { p0(s).pieces[0].box.count = 1; }},
      {"expected an offset >= 0", [](ir::Schedule& s) { p0(s).pieces[0].offset_elems = -1; }},
      {"on axis 1 a part of [0, 4), not empty, found [0, 5)",
       [](ir::Schedule& s) { p0(s).pieces[0].box[1].end = 5; }},
      {"found [2, 2)",
       [](ir::Schedule& s) {
         p0(s).pieces[0].box[1] = {2, 2};
       }},
      {"expected strides >= 0", [](ir::Schedule& s) { p0(s).pieces[0].strides_elems[0] = -4; }},
      {"expected zeros beyond the last dimension",
       [](ir::Schedule& s) { p0(s).pieces[0].box[3].end = 1; }},
      {"expected elements inside the storage's 16, found the last one at 16",
       [](ir::Schedule& s) { p0(s).pieces[0].offset_elems = 1; }},
      {"an offset beyond 64 bits",
       [](ir::Schedule& s) { p0(s).pieces[0].strides_elems[0] = kHuge; }},
  });
}

TEST_CASE("faults of windows are named") {
  expect_refused({
      {"rank 0, windows: expected a window number above 0 and below 5, found 0",
       [](ir::Schedule& s) { p0(s).windows[1].number = 0; }},
      {"found 5", [](ir::Schedule& s) { p0(s).windows[1].number = 5; }},
      {"rank 0, window 3, depends_on: expected an earlier window of this program, found window 1",
       [](ir::Schedule& s) { p0(s).window_numbers[0] = 1; }},
      {"expected an earlier window of this program, found window 3",
       [](ir::Schedule& s) { p0(s).window_numbers[0] = 3; }},
      {"inside the 1 window numbers",
       [](ir::Schedule& s) { p0(s).windows[1].depends_on.count = 2; }},
      {"rank 0, window 0, allocate: expected one of the 9 storages, found storage 9",
       [](ir::Schedule& s) { p0(s).storage_ids[0] = StorageId(9); }},
      {"rank 0, window 3, free: expected one of the 9 storages, found storage -1",
       [](ir::Schedule& s) { p0(s).storage_ids[7] = StorageId(); }},
      {"rank 0, window 0, sends and receives: expected at most 1 in one window, found 2",
       [](ir::Schedule& s) {
         s.window_ops = 1;
         p0(s).sends.push_back({RankId(2), 9, {}});
         p0(s).windows[0].sends = {0, 2};
       }},
      {"window 0, before copies: expected a range inside the 3 copies",
       [](ir::Schedule& s) { p0(s).windows[0].before.copies.count = 4; }},
      {"window 3, after fills: expected a range inside the 2 fills",
       [](ir::Schedule& s) { p0(s).windows[1].after.fills.first = 2; }},
      {"window 3, after converts: expected a range inside the 2 converts",
       [](ir::Schedule& s) { p0(s).windows[1].after.converts.count = -1; }},
      {"used at most 64 times on average",
       [](ir::Schedule& s) {
         p0(s).storages.resize(300, p0(s).storages[6]);
         for (std::size_t i = 9; i < 300; ++i) storage(s, i).pieces = {3, 1};
         for (std::size_t i = 9; i < 300; ++i) storage(s, i).dtype = Dtype::UInt8;
       }},
  });
}

TEST_CASE("faults of slices are named") {
  expect_refused({
      {"rank 0, window 0, before copies, entry 0, from: expected one of the 9 storages, found "
       "storage 9",
       [](ir::Schedule& s) { p0(s).copies[0].from.storage = StorageId(9); }},
      {"before copies, entry 0, from: expected 1 to 2 lanes",
       [](ir::Schedule& s) { p0(s).copies[0].from.lanes = 3; }},
      {"found 2147483647", [](ir::Schedule& s) { p0(s).copies[0].from.lanes = kHuge32; }},
      {"found 0", [](ir::Schedule& s) { p0(s).copies[0].from.lanes = 0; }},
      {"expected offset_bytes >= 0 and run_bytes >= 1, found -8 and 8",
       [](ir::Schedule& s) { p0(s).copies[0].from.offset_bytes = -8; }},
      {"found 0 and 0", [](ir::Schedule& s) { p0(s).copies[0].from.run_bytes = 0; }},
      {"expected at most 8 dims, found 9",
       [](ir::Schedule& s) {
         p0(s).slice_dims.resize(20);
         p0(s).copies[0].from.dims = {0, 9};
       }},
      {"inside the 6 slice dims",
       [](ir::Schedule& s) {
         p0(s).copies[0].from.dims = {5, 2};
       }},
      {"expected dims of count >= 1 and stride_bytes >= 0, found 0 and 32",
       [](ir::Schedule& s) { p0(s).slice_dims[0].count = 0; }},
      {"found 2 and -32", [](ir::Schedule& s) { p0(s).slice_dims[0].stride_bytes = -32; }},
      {"expected bytes inside storage 1 of 64 bytes, found an end at 65",
       [](ir::Schedule& s) { p0(s).copies[0].from.offset_bytes = 9; }},
      {"found an end beyond 64 bits",
       [](ir::Schedule& s) { p0(s).copies[0].from.offset_bytes = kHuge; }},
      {"found an end beyond 64 bits",
       [](ir::Schedule& s) {
         p0(s).slice_dims[0] = {kHuge, kHuge};
       }},
      {"found an end beyond 64 bits",
       [](ir::Schedule& s) {
         p0(s).slice_dims[0] = {kHuge, 0};
       }},
      {"expected each byte once, so at most 24 bytes, found 64",
       [](ir::Schedule& s) {
         p0(s).slice_dims[0] = {4, 0};
       }},
      {"rank 0, window 0, sends, entry 0, slice 1: expected bytes inside storage 6",
       [](ir::Schedule& s) { p0(s).slices[1].offset_bytes = 81; }},
      {"rank 0, window 3, receives, entry 0, slice 0: expected bytes inside storage 6",
       [](ir::Schedule& s) { p0(s).slices[2].run_bytes = 97; }},
  });
}

TEST_CASE("faults of ops and messages are named") {
  expect_refused({
      {"before copies, entry 1: expected as many bytes to write as are read, 16, found 15",
       [](ir::Schedule& s) { p0(s).copies[1].to.run_bytes = 15; }},
      {"before fills, entry 0: expected pattern_bytes 1, 2, 4 or 8, found 3",
       [](ir::Schedule& s) { p0(s).fills[0].pattern_bytes = 3; }},
      {"before fills, entry 0, to: expected runs of whole patterns of 8 bytes, found 4 bytes",
       [](ir::Schedule& s) { p0(s).fills[0].pattern_bytes = 8; }},
      {"before converts, entry 0, from: expected a floating-point dtype, found int32",
       [](ir::Schedule& s) { p0(s).converts[0].from_dtype = Dtype::Int32; }},
      {"before converts, entry 0, to: expected a floating-point dtype, found 200",
       [](ir::Schedule& s) { p0(s).converts[0].to_dtype = static_cast<Dtype>(200); }},
      {"expected as many elements to write as are read, 16, found 32",
       [](ir::Schedule& s) { p0(s).converts[0].to_dtype = Dtype::Float8E4M3; }},
      {"in whole elements of 4 bytes",
       [](ir::Schedule& s) { p0(s).converts[0].from.run_bytes = 62; }},
      {"sends, entry 0: expected another one of the 3 ranks as peer, found rank 0",
       [](ir::Schedule& s) { p0(s).sends[0].to_rank = RankId(0); }},
      {"found rank 3", [](ir::Schedule& s) { p0(s).sends[0].to_rank = RankId(3); }},
      {"receives, entry 0: expected another one of the 3 ranks as peer, found rank -1",
       [](ir::Schedule& s) { p0(s).receives[0].from_rank = RankId(); }},
      {"sends, entry 1: expected peers ascending, above rank 1, found rank 1",
       [](ir::Schedule& s) {
         p0(s).sends.push_back({RankId(1), 9, {}});
         p0(s).windows[0].sends = {0, 2};
       }},
      {"expected a message number >= 0, found -1",
       [](ir::Schedule& s) { p0(s).sends[0].message = -1; }},
      {"rank 0, window 0; rank 2, window 3: expected each message number once among all sends, "
       "found message 7 more than once",
       [](ir::Schedule& s) { p0(s).sends[0].message = 7; }},
      {"once among all receives, found message 5",
       [](ir::Schedule& s) { p0(s).receives[0].message = 5; }},
      {"sends, entry 0, slices: expected a range inside the 3 slices",
       [](ir::Schedule& s) { p0(s).sends[0].slices.count = 4; }},
  });
}

}  // namespace
}  // namespace plan
