#include "libplan/base/box.h"

#include <catch2/catch.hpp>
#include <random>

namespace plan {
namespace {

// Flat indices of a box's elements, counted one by one.
std::vector<std::int64_t> elements_of(const Dims& shape, const Box& box) {
  std::vector<std::int64_t> found;
  for (std::int64_t flat = 0; flat < num_elements(shape); ++flat) {
    std::int64_t rest = flat;
    bool inside = true;
    for (int axis = shape.count - 1; axis >= 0; --axis) {
      const std::int64_t index = rest % shape[axis];
      rest /= shape[axis];
      inside = inside && index >= box[axis].begin && index < box[axis].end;
    }
    if (inside) found.push_back(flat);
  }
  return found;
}

void check_range(const Dims& shape, Interval range) {
  const std::vector<Box> boxes = boxes_of_flat_range(shape, range);
  std::vector<std::int64_t> covered;
  for (const Box& box : boxes) {
    const std::vector<std::int64_t> part = elements_of(shape, box);
    covered.insert(covered.end(), part.begin(), part.end());
  }
  std::vector<std::int64_t> expected;
  for (std::int64_t flat = range.begin; flat < range.end; ++flat) expected.push_back(flat);
  CAPTURE(to_string(shape), range.begin, range.end);
  REQUIRE(covered == expected);
  if (shape.count > 0) REQUIRE(static_cast<int>(boxes.size()) <= 2 * shape.count - 1);
}

TEST_CASE("a flat range becomes at most 2n-1 boxes in order, for every range of small shapes") {
  for (const Dims& shape :
       {Dims{}, Dims{7}, Dims{1}, Dims{3, 4}, Dims{1, 5}, Dims{5, 1}, Dims{2, 3, 4}, Dims{3, 1, 2},
        Dims{2, 2, 3, 2}, Dims{0, 4}, Dims{3, 0}}) {
    const std::int64_t size = num_elements(shape);
    for (std::int64_t begin = 0; begin <= size; ++begin) {
      for (std::int64_t end = begin; end <= size; ++end) check_range(shape, {begin, end});
    }
  }
}

TEST_CASE("a flat range of random shapes up to six dimensions") {
  std::mt19937_64 random(20261201);
  for (int round = 0; round < 300; ++round) {
    Dims shape;
    const int dims = static_cast<int>(random() % kMaxDims) + 1;
    for (int i = 0; i < dims; ++i) shape.push_back(static_cast<std::int64_t>(random() % 4) + 1);
    const std::int64_t size = num_elements(shape);
    const auto begin = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(size + 1));
    const auto length =
        static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(size - begin + 1));
    check_range(shape, {begin, begin + length});
  }
}

TEST_CASE("intersection agrees with counting elements") {
  std::mt19937_64 random(7);
  const Dims shape{5, 4, 3};
  const auto random_box = [&] {
    Box box;
    box.count = 3;
    for (int i = 0; i < 3; ++i) {
      const auto a = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(shape[i] + 1));
      const auto b = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(shape[i] + 1));
      box[i] = {std::min(a, b), std::max(a, b)};
    }
    return box;
  };
  for (int round = 0; round < 500; ++round) {
    const Box a = random_box();
    const Box b = random_box();
    const std::vector<std::int64_t> in_a = elements_of(shape, a);
    const std::vector<std::int64_t> in_b = elements_of(shape, b);
    std::vector<std::int64_t> both;
    std::set_intersection(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(),
                          std::back_inserter(both));
    const Box common = intersect(a, b);
    REQUIRE(elements_of(shape, common) == both);
    REQUIRE(common.num_elements() == static_cast<std::int64_t>(both.size()));
    REQUIRE(a.contains(common) == (common.empty() ? a.contains(common) : true));
  }
}

}  // namespace
}  // namespace plan
