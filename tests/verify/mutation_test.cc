#include <catch2/catch.hpp>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "libplan/verify/verify.h"
#include "tests/verify/builder.h"
#include "tests/verify/interpreter.h"

namespace plan::verify {
namespace {

// Pointers to the integers of a schedule.
struct Fields {
  std::vector<std::int32_t*> narrow;
  std::vector<std::int64_t*> wide;
  std::vector<std::uint8_t*> bytes;

  void add(std::int32_t& field) { narrow.push_back(&field); }
  void add(std::int64_t& field) { wide.push_back(&field); }
  void add(ir::Range& range) {
    add(range.first);
    add(range.count);
  }
  void add(ir::Slice& slice) {
    add(slice.storage.value);
    add(slice.lanes);
    add(slice.offset_bytes);
    add(slice.run_bytes);
    add(slice.dims);
  }
  void add(ir::LocalOps& ops) {
    add(ops.copies);
    add(ops.fills);
    add(ops.converts);
  }
  template <class Enum>
  void add_enum(Enum& field) {
    bytes.push_back(reinterpret_cast<std::uint8_t*>(&field));
  }
  std::size_t size() const { return narrow.size() + wide.size() + bytes.size(); }
};

// What decides which bytes go where and when.
void add_flow(ir::Program& program, Fields& fields) {
  for (ir::Window& window : program.windows) {
    fields.add(window.allocate);
    fields.add(window.before);
    fields.add(window.sends);
    fields.add(window.receives);
    fields.add(window.after);
    fields.add(window.free);
  }
  for (StorageId& id : program.storage_ids) fields.add(id.value);
  for (ir::Copy& copy : program.copies) {
    fields.add(copy.from);
    fields.add(copy.to);
  }
  for (ir::Fill& fill : program.fills) {
    fields.add(fill.to);
    fields.add(fill.pattern_bytes);
  }
  for (ir::Convert& convert : program.converts) {
    fields.add(convert.from);
    fields.add(convert.to);
  }
  for (ir::Send& send : program.sends) {
    fields.add(send.to_rank.value);
    fields.add(send.message);
    fields.add(send.slices);
  }
  for (ir::Receive& receive : program.receives) {
    fields.add(receive.from_rank.value);
    fields.add(receive.message);
    fields.add(receive.slices);
  }
  for (ir::Slice& slice : program.slices) fields.add(slice);
  for (ir::SliceDim& dim : program.slice_dims) {
    fields.add(dim.count);
    fields.add(dim.stride_bytes);
  }
}

void add_rest(ir::Schedule& schedule, Fields& fields) {
  fields.add(schedule.window_ops);
  fields.add(schedule.num_windows);
  for (ir::RankEntry& entry : schedule.ranks) {
    fields.add(entry.rank.value);
    fields.add(entry.worker.value);
    fields.add(entry.rollback_until_window);
  }
  for (ir::TensorEntry& tensor : schedule.tensors) {
    fields.add(tensor.shape.count);
    for (std::int64_t& extent : tensor.shape.values) fields.add(extent);
  }
  for (ir::Program& program : schedule.programs) {
    fields.add(program.rank.value);
    for (ir::Storage& storage : program.storages) {
      fields.add_enum(storage.role);
      fields.add_enum(storage.memory);
      fields.add_enum(storage.dtype);
      fields.add(storage.size_bytes);
      fields.add(storage.alignment);
      fields.add(storage.state.value);
      fields.add(storage.alias_of.value);
      fields.add(storage.pieces);
    }
    for (ir::Piece& piece : program.pieces) {
      fields.add(piece.tensor.value);
      fields.add(piece.box.count);
      for (Interval& interval : piece.box.intervals) {
        fields.add(interval.begin);
        fields.add(interval.end);
      }
      fields.add(piece.offset_elems);
      fields.add(piece.strides_elems.count);
      for (std::int64_t& stride : piece.strides_elems.values) fields.add(stride);
    }
    for (ir::Window& window : program.windows) {
      fields.add(window.number);
      fields.add(window.depends_on);
    }
    for (std::int32_t& number : program.window_numbers) fields.add(number);
    for (ir::Convert& convert : program.converts) {
      fields.add_enum(convert.from_dtype);
      fields.add_enum(convert.to_dtype);
    }
  }
}

template <class T>
T changed(T value, std::mt19937_64& random) {
  const std::int64_t steps[] = {1, -1, 2, -2, 4, -4, 8, -8, 16, -16, 32};
  switch (random() % 8) {
    case 0: return 0;
    case 1: return static_cast<T>(random() % 7);
    case 2: return std::numeric_limits<T>::max();
    case 3: return std::numeric_limits<T>::min();
    case 4: return static_cast<T>(random());
    default:
      return static_cast<T>(static_cast<std::uint64_t>(value) +
                            static_cast<std::uint64_t>(steps[random() % std::size(steps)]));
  }
}

void change_one(Fields& fields, std::mt19937_64& random) {
  std::size_t at = random() % fields.size();
  if (at < fields.narrow.size()) {
    *fields.narrow[at] = changed(*fields.narrow[at], random);
    return;
  }
  at -= fields.narrow.size();
  if (at < fields.wide.size()) {
    *fields.wide[at] = changed(*fields.wide[at], random);
    return;
  }
  at -= fields.wide.size();
  *fields.bytes[at] = static_cast<std::uint8_t>(random() % 16);
}

std::string show(const Report& report) {
  std::string text;
  for (const Diagnostic& diagnostic : report.findings) text += to_string(diagnostic) + "\n";
  return text;
}

TEST_CASE("checker and interpreter agree on changes of the data flow") {
  std::mt19937_64 random(20261202);
  const testing::Case good = testing::good_case();
  int right = 0;
  constexpr int kRounds = 1500;  // 6000 agree too, and take minutes under a sanitizer
  for (int round = 0; round < kRounds; ++round) {
    ir::Schedule schedule = flatten(good);
    Fields fields;
    for (ir::Program& program : schedule.programs) add_flow(program, fields);
    const auto changes = 1 + random() % 2;
    for (std::uint64_t i = 0; i < changes; ++i) change_one(fields, random);
    const Report report = verify(schedule, good.source, good.target);
    const std::string fault = testing::interpret(schedule);
    INFO("round " << round << ", interpreter: " << fault << "\n" << show(report));
    REQUIRE(report.ok() == fault.empty());
    right += report.ok() ? 1 : 0;
  }
  CHECK(right > 10);  // changes that change nothing occur
  CHECK(right < kRounds / 2);
}

TEST_CASE("any changed integer leaves an equivalent schedule or a finding") {
  std::mt19937_64 random(20261204);
  const testing::Case good = testing::good_case();
  for (int round = 0; round < 6000; ++round) {
    ir::Schedule schedule = flatten(good);
    Fields fields;
    for (ir::Program& program : schedule.programs) add_flow(program, fields);
    add_rest(schedule, fields);
    const auto changes = 1 + random() % 3;
    for (std::uint64_t i = 0; i < changes; ++i) change_one(fields, random);
    const Report report = verify(schedule, good.source, good.target);
    if (!report.ok()) continue;
    INFO("round " << round);
    REQUIRE(testing::interpret(schedule).empty());
  }
}

}  // namespace
}  // namespace plan::verify
