// Cuts the boxes of one tensor into maximal cells that each lie in the same boxes throughout.
#pragma once

#include <cstdint>
#include <vector>

#include "libplan/base/box.h"

namespace plan {

struct OverlayCell {
  Box box;
  std::vector<std::int32_t> members;  // indices of the input boxes that contain the cell, ascending
};

// Cells that lie in at least one box, ascending by first corner; neighbours along an axis with
// equal members are merged, last axis first. Cost: a sweep per axis, O(boxes log boxes + cells x
// members).
std::vector<OverlayCell> overlay(const std::vector<Box>& boxes);

}  // namespace plan
