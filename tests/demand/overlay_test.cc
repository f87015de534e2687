#include "libplan/demand/overlay.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

namespace plan {
namespace {

using Members = std::vector<std::int32_t>;

// The elements of `box`, as row-major numbers in a cube of extent 16.
std::vector<std::int64_t> elements_of(const Box& box) {
  std::vector<std::int64_t> numbers{0};
  for (int axis = 0; axis < box.count; ++axis) {
    std::vector<std::int64_t> next;
    for (const std::int64_t number : numbers) {
      for (std::int64_t i = box[axis].begin; i < box[axis].end; ++i)
        next.push_back(number * 16 + i);
    }
    numbers = std::move(next);
  }
  return numbers;
}

std::map<std::int64_t, Members> members_by_element(const std::vector<Box>& boxes) {
  std::map<std::int64_t, Members> members;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    for (const std::int64_t element : elements_of(boxes[i])) {
      members[element].push_back(static_cast<std::int32_t>(i));
    }
  }
  return members;
}

void check(const std::vector<Box>& boxes) {
  const std::map<std::int64_t, Members> expected = members_by_element(boxes);
  const std::vector<OverlayCell> cells = overlay(boxes);
  std::map<std::int64_t, Members> found;
  for (const OverlayCell& cell : cells) {
    REQUIRE_FALSE(cell.box.empty());
    for (const std::int64_t element : elements_of(cell.box)) {
      REQUIRE(found.emplace(element, cell.members).second);  // cells do not overlap
    }
  }
  REQUIRE(found == expected);
  for (std::size_t i = 1; i < cells.size(); ++i) {
    for (int axis = 0; axis < cells[i].box.count; ++axis) {
      if (cells[i - 1].box[axis].begin == cells[i].box[axis].begin) continue;
      REQUIRE(cells[i - 1].box[axis].begin < cells[i].box[axis].begin);
      break;
    }
  }
}

TEST_CASE("overlay agrees with single elements on random boxes") {
  std::mt19937 random(7);
  const auto number = [&](std::int64_t below) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(below));
  };
  for (int round = 0; round < 400; ++round) {
    const int dims = round % 5;
    const std::int64_t extent = dims < 3 ? 12 : 5;
    std::vector<Box> boxes;
    for (std::int64_t left = 1 + number(7); left > 0; --left) {
      Box box;
      box.count = dims;
      for (int axis = 0; axis < dims; ++axis) {
        const std::int64_t a = number(extent);
        box[axis] = {a, a + number(extent - a + 1)};  // may be empty
      }
      boxes.push_back(box);
    }
    CAPTURE(round);
    check(boxes);
  }
}

TEST_CASE("overlay merges cells that lie in the same boxes") {
  SECTION("a grid of equal cuts stays as fine as the cuts, and no finer") {
    const std::vector<Box> boxes{
        {{0, 2}, {0, 4}}, {{2, 4}, {0, 4}}, {{0, 4}, {0, 2}}, {{0, 4}, {2, 4}}};
    CHECK(overlay(boxes).size() == 4);
  }
  SECTION("a cut of another box further away does not split a cell") {
    const std::vector<Box> boxes{{{0, 4}, {0, 2}}, {{1, 3}, {4, 6}}};
    const std::vector<OverlayCell> cells = overlay(boxes);
    std::int64_t elements = 0;
    for (const OverlayCell& cell : cells) elements += cell.box.num_elements();
    CHECK(elements == 12);
  }
  SECTION("equal boxes are one cell") {
    const std::vector<Box> boxes(3, Box{{0, 5}, {1, 2}});
    REQUIRE(overlay(boxes).size() == 1);
    CHECK(overlay(boxes)[0].members == Members{0, 1, 2});
  }
  SECTION("scalars") {
    REQUIRE(overlay({Box(), Box()}).size() == 1);
    CHECK(overlay({Box(), Box()})[0].members == Members{0, 1});
  }
  SECTION("nothing") { CHECK(overlay({}).empty()); }
}

}  // namespace
}  // namespace plan
