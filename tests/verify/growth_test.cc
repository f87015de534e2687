// How the checker's time grows; run by hand: verify_test "[growth]".
#include <catch2/catch.hpp>
#include <ctime>
#include <iostream>
#include <string>

#include "libplan/verify/verify.h"
#include "tests/verify/builder.h"

namespace plan::verify {
namespace {

using testing::Case;
using testing::contiguous_shard;

const std::vector<Lane> kThree = {
    {StateId(0), Dtype::Float32}, {StateId(1), Dtype::Float32}, {StateId(2), Dtype::Float32}};

Layout empty_layout(std::int32_t num_tensors, const Dims& shape) {
  Layout layout;
  for (std::int32_t t = 0; t < num_tensors; ++t) {
    layout.tensors.push_back({"layers." + std::to_string(t), shape});
  }
  layout.states = {{"main_param", {}}, {"exp_avg", {}}, {"exp_avg_sq", {}}};
  return layout;
}

// Each of `num_tensors` tensors goes from column blocks to row blocks over all ranks. Window w
// holds the messages from rank r to rank r + w, one slice of three lanes for each tensor.
Case columns_to_rows(std::int32_t num_ranks, std::int32_t num_tensors) {
  const std::int64_t block = 16;
  const std::int64_t side = block * num_ranks;
  Layout source = empty_layout(num_tensors, {side, side});
  Layout target = source;
  for (std::int32_t r = 0; r < num_ranks; ++r) {
    source.devices.push_back({DeviceId(r), {}});
    target.devices.push_back({DeviceId(r), {}});
    const Interval own = {r * block, (r + 1) * block};
    for (std::int32_t t = 0; t < num_tensors; ++t) {
      const std::string& key = source.tensors[static_cast<std::size_t>(t)].name;
      source.devices.back().storages.push_back({key,
                                                kThree,
                                                side * block,
                                                MemoryKind::Device,
                                                {contiguous_shard(t, {{0, side}, own}, 0)}});
      target.devices.back().storages.push_back({key,
                                                kThree,
                                                side * block,
                                                MemoryKind::Device,
                                                {contiguous_shard(t, {own, {0, side}}, 0)}});
    }
  }
  Case result = testing::declare(source, target, num_ranks, num_ranks);
  const std::int32_t targets = 3 * num_tensors;
  const auto from_slice = [&](std::int32_t t, std::int32_t to) {
    return testing::SliceSpec{3 * t, to * block * block * 4, block * block * 4, {}, 3};
  };
  const auto to_slice = [&](std::int32_t t, std::int32_t from) {
    return testing::SliceSpec{targets + 3 * t, from * block * 4, block * 4, {{block, side * 4}}, 3};
  };
  for (std::int32_t r = 0; r < num_ranks; ++r) {
    testing::ProgramSpec& program = result.programs[static_cast<std::size_t>(r)];
    for (std::int32_t w = 0; w < num_ranks; ++w) {
      testing::WindowSpec window;
      window.number = w;
      const std::int32_t to = (r + w) % num_ranks;
      const std::int32_t from = (r - w + num_ranks) % num_ranks;
      testing::MessageSpec send{to, std::int64_t{r} * num_ranks + to, {}};
      testing::MessageSpec receive{from, std::int64_t{from} * num_ranks + r, {}};
      for (std::int32_t t = 0; t < num_tensors; ++t) {
        if (w == 0) {
          window.before.copies.push_back({from_slice(t, r), to_slice(t, r)});
        } else {
          send.slices.push_back(from_slice(t, to));
          receive.slices.push_back(to_slice(t, from));
        }
      }
      if (w == 0) {
        for (std::int32_t id = targets; id < 2 * targets; ++id) window.allocate.push_back(id);
      } else {
        window.sends = {send};
        window.receives = {receive};
      }
      program.windows.push_back(window);
    }
  }
  return result;
}

// One square tensor goes from rank 0 to rank 1 in grid x grid boxes.
Case torn_tensor(std::int64_t grid) {
  const std::int64_t side = grid * 8;
  Layout source = empty_layout(1, {side, side});
  Layout target = source;
  const Storage whole = {"w",
                         {kThree[0]},
                         side * side,
                         MemoryKind::Device,
                         {contiguous_shard(0, {{0, side}, {0, side}}, 0)}};
  source.devices = {{DeviceId(0), {whole}}};
  target.devices = {{DeviceId(1), {whole}}};
  Case result = testing::declare(source, target, 2, 1);
  testing::MessageSpec message;
  for (std::int64_t i = 0; i < grid * grid; ++i) {
    const std::int64_t corner = (i / grid * side + i % grid) * 8 * 4;
    message.slices.push_back({0, corner, 8 * 4, {{8, side * 4}}});
  }
  message.peer = 1;
  result.programs[0].windows = {{0, {}, {}, {}, {message}, {}, {}, {}}};
  message.peer = 0;
  result.programs[1].windows = {{0, {}, {0}, {}, {}, {message}, {}, {}}};
  return result;
}

void measure(const std::string& name, std::int64_t slices, const Case& of) {
  const ir::Schedule schedule = flatten(of);
  const std::clock_t start = std::clock();
  const Report report = verify(schedule, of.source, of.target);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  REQUIRE(report.ok());
  std::cout << name << ": " << slices << " slices, " << seconds << " s of CPU, "
            << seconds / static_cast<double>(slices) * 1e6 << " us each\n";
}

TEST_CASE("columns become rows on many ranks") {
  REQUIRE(verify(flatten(columns_to_rows(5, 3)), columns_to_rows(5, 3).source,
                 columns_to_rows(5, 3).target)
              .ok());
  REQUIRE(verify(flatten(torn_tensor(7)), torn_tensor(7).source, torn_tensor(7).target).ok());
}

TEST_CASE("growth", "[.growth]") {
  for (const std::int32_t tensors : {25, 100, 400}) {
    measure("8 ranks, " + std::to_string(tensors) + " tensors", 2 * 8 * 8 * 3 * tensors,
            columns_to_rows(8, tensors));
  }
  for (const std::int32_t ranks : {8, 16, 32}) {
    measure(std::to_string(ranks) + " ranks, 20 tensors", 2 * ranks * ranks * 3 * 20,
            columns_to_rows(ranks, 20));
  }
  for (const std::int64_t grid : {40, 80, 160}) {
    measure("one tensor in " + std::to_string(grid * grid) + " boxes", 2 * grid * grid,
            torn_tensor(grid));
  }
}

}  // namespace
}  // namespace plan::verify
