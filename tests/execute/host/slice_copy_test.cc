#include "libplan/execute/host/slice_copy.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "libplan/base/error.h"
#include "libplan/execute/host/element_cast.h"

namespace plan {
namespace {

// A random slice list over its own memory, and where each of its bytes lies, listed by plain loops.
struct RandomList {
  std::vector<std::byte> memory;
  SliceList list;
  std::vector<std::size_t> places;  // of byte i of the list, in `memory`

  RandomList(std::mt19937& random, std::int64_t bytes, std::int64_t unit);
  std::vector<std::byte> contents() const {
    std::vector<std::byte> bytes;
    for (const std::size_t place : places) bytes.push_back(memory[place]);
    return bytes;
  }
};

std::int64_t random_divisor(std::mt19937& random, std::int64_t number) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t i = 1; i <= number; ++i) {
    if (number % i == 0) divisors.push_back(i);
  }
  return divisors[random() % divisors.size()];
}

struct RandomEntry {
  std::int64_t offset = 0;
  std::int64_t run = 0;
  std::vector<ir::SliceDim> dims;
};

// An entry of `bytes` bytes in runs of whole units, with gaps or none; returns its extent.
std::int64_t random_entry(std::mt19937& random, std::int64_t bytes, std::int64_t unit,
                          RandomEntry& entry) {
  std::int64_t units = bytes / unit;
  const std::int64_t run_units = random_divisor(random, units);
  units /= run_units;
  entry.run = run_units * unit;
  std::int64_t extent = entry.run;
  while (units > 1 || random() % 4 == 0) {
    const std::int64_t count = random_divisor(random, units);
    units /= count;
    const std::int64_t gap = random() % 3 == 0 ? 0 : static_cast<std::int64_t>(random() % 9);
    entry.dims.insert(entry.dims.begin(), {count, extent + gap});
    extent = count * (extent + gap);
  }
  return extent;
}

void list_places(const RandomEntry& entry, std::size_t axis, std::int64_t at,
                 std::vector<std::size_t>& places) {
  if (axis == entry.dims.size()) {
    for (std::int64_t i = 0; i < entry.run; ++i) {
      places.push_back(static_cast<std::size_t>(at + i));
    }
    return;
  }
  for (std::int64_t i = 0; i < entry.dims[axis].count; ++i) {
    list_places(entry, axis + 1, at + i * entry.dims[axis].stride_bytes, places);
  }
}

RandomList::RandomList(std::mt19937& random, std::int64_t bytes, std::int64_t unit) {
  std::vector<RandomEntry> entries;
  std::int64_t end = static_cast<std::int64_t>(random() % 16);
  while (bytes > 0) {
    const std::int64_t units = bytes / unit;
    const std::int64_t take =
        random() % 2 == 0 ? units : 1 + static_cast<std::int64_t>(random()) % units;
    RandomEntry entry;
    entry.offset = end;
    end += random_entry(random, take * unit, unit, entry) + static_cast<std::int64_t>(random() % 5);
    bytes -= take * unit;
    entries.push_back(entry);
  }
  memory.resize(static_cast<std::size_t>(end) + 8);
  for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
  for (const RandomEntry& entry : entries) {
    list.append(memory.data() + entry.offset, entry.run, entry.dims);
    list_places(entry, 0, entry.offset, places);
  }
}

TEST_CASE("copies between random strided lists equal a copy byte by byte") {
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    const std::int64_t bytes = 1 + static_cast<std::int64_t>(random() % 700);
    const RandomList from(random, bytes, 1);
    RandomList to(random, bytes, 1);
    std::vector<std::byte> expected = to.memory;
    const std::int64_t begin = static_cast<std::int64_t>(random()) % bytes;
    const std::int64_t end = begin + static_cast<std::int64_t>(random()) % (bytes - begin + 1);
    for (std::int64_t i = begin; i < end; ++i) {
      const auto index = static_cast<std::size_t>(i);
      expected[to.places[index]] = from.memory[from.places[index]];
    }
    copy_slices(from.list, to.list, {begin, end});
    REQUIRE(to.memory == expected);
    copy_slices(from.list, to.list);
    REQUIRE(to.contents() == from.contents());
  }
}

TEST_CASE("large copies are right at every alignment and run") {
  std::mt19937 random(12);
  std::vector<std::byte> source(3 << 20);
  for (std::byte& byte : source) byte = static_cast<std::byte>(random());
  for (const std::int64_t run : {511, 512, 577, 4096, 65537, 1 << 20}) {
    for (const std::int64_t shift : {0, 1, 17, 63}) {
      CAPTURE(run, shift);
      const std::int64_t rows = (1 << 20) / run + 1;
      std::vector<std::byte> target(static_cast<std::size_t>(rows * (run + 3) + 64));
      SliceList from;
      from.append(source.data() + shift, run * rows, {});
      SliceList to;
      const ir::SliceDim dim{rows, run + 3};
      to.append(target.data() + shift, run, {&dim, 1});
      copy_slices(from, to);
      std::vector<std::byte> expected(target.size());
      for (std::int64_t row = 0; row < rows; ++row) {
        std::copy_n(source.begin() + shift + row * run, run,
                    expected.begin() + shift + row * (run + 3));
      }
      REQUIRE(target == expected);
    }
  }
}

TEST_CASE("gather then scatter moves a list's bytes in order") {
  std::mt19937 random(13);
  for (int round = 0; round < 300; ++round) {
    const std::int64_t bytes = 1 + static_cast<std::int64_t>(random() % 300);
    const RandomList from(random, bytes, 1);
    RandomList to(random, bytes, 1);
    std::vector<std::byte> packed(static_cast<std::size_t>(bytes));
    gather_slices(from.list, packed.data());
    REQUIRE(packed == from.contents());
    scatter_slices(packed.data(), to.list);
    REQUIRE(to.contents() == packed);
  }
}

TEST_CASE("fills repeat the pattern over the list's bytes and touch nothing else") {
  std::mt19937 random(14);
  for (int round = 0; round < 600; ++round) {
    CAPTURE(round);
    const int pattern_bytes = 1 << (round % 4);
    const std::uint64_t pattern = (std::uint64_t{random()} << 32) | random();
    RandomList to(random, 1 + static_cast<std::int64_t>(random() % 3000), 1);
    std::vector<std::byte> expected = to.memory;
    for (std::size_t i = 0; i < to.places.size(); ++i) {
      const auto shift = 8 * (i % static_cast<std::size_t>(pattern_bytes));
      expected[to.places[i]] = static_cast<std::byte>(pattern >> shift);
    }
    fill_slices(to.list, pattern, pattern_bytes);
    REQUIRE(to.memory == expected);
  }
}

TEST_CASE("casts between random strided lists equal a cast element by element") {
  std::mt19937 random(15);
  const std::vector<std::pair<Dtype, Dtype>> pairs = {
      {Dtype::Float32, Dtype::BFloat16}, {Dtype::Float16, Dtype::Float32},
      {Dtype::Float32, Dtype::Float64},  {Dtype::Float64, Dtype::Float32},
      {Dtype::BFloat16, Dtype::Float16}, {Dtype::Int16, Dtype::Int16}};
  for (int round = 0; round < 600; ++round) {
    CAPTURE(round);
    const auto [from_dtype, to_dtype] = pairs[static_cast<std::size_t>(round) % pairs.size()];
    const std::int64_t count = 1 + static_cast<std::int64_t>(random() % 200);
    const RandomList from(random, count * size_bytes(from_dtype), size_bytes(from_dtype));
    RandomList to(random, count * size_bytes(to_dtype), size_bytes(to_dtype));
    const std::vector<std::byte> values = from.contents();
    std::vector<std::byte> expected(static_cast<std::size_t>(count * size_bytes(to_dtype)));
    for (std::int64_t i = 0; i < count; ++i) {
      convert_elements(values.data() + i * size_bytes(from_dtype), from_dtype,
                       expected.data() + i * size_bytes(to_dtype), to_dtype, 1);
    }
    convert_slices(from.list, from_dtype, to.list, to_dtype);
    REQUIRE(to.contents() == expected);
  }
}

TEST_CASE("lists that do not fit each other are refused") {
  std::vector<std::byte> memory(64);
  SliceList eight;
  eight.append(memory.data(), 8, {});
  SliceList six;
  six.append(memory.data() + 32, 6, {});
  REQUIRE_THROWS_WITH(copy_slices(eight, six), "expected slices of equal bytes, found 8 and 6");
  REQUIRE_THROWS_AS(copy_slices(eight, eight, {4, 9}), Error);
  REQUIRE_THROWS_WITH(convert_slices(eight, Dtype::Float32, six, Dtype::BFloat16),
                      "expected slices of equal element count, found 2 and 3");
  REQUIRE_THROWS_WITH(convert_slices(six, Dtype::Float32, eight, Dtype::Float32),
                      "expected runs of whole fp32 elements, found a run of 6 bytes");
  REQUIRE_THROWS_AS(convert_slices(eight, Dtype::Int64, eight, Dtype::Float64), Error);
  REQUIRE_THROWS_AS(fill_slices(eight, 0, 3), Error);
}

TEST_CASE("runs without gaps become one, and empty slices vanish") {
  std::vector<std::byte> memory(64);
  SliceList list;
  const std::vector<ir::SliceDim> dims = {{1, 999}, {2, 24}, {3, 4}, {1, 7}};
  list.append(memory.data(), 4, dims);
  REQUIRE(list.entries().size() == 1);
  REQUIRE(list.entries()[0].run_bytes == 12);
  REQUIRE(list.dims(list.entries()[0]).size() == 1);
  list.append(memory.data(), 0, {});
  const std::vector<ir::SliceDim> none = {{0, 8}};
  list.append(memory.data(), 4, none);
  REQUIRE(list.entries().size() == 1);
  REQUIRE(list.num_bytes() == 24);
}

}  // namespace
}  // namespace plan
