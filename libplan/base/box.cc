#include "libplan/base/box.h"

#include "libplan/base/checked.h"
#include "libplan/base/error.h"

namespace plan {

Dims::Dims(std::initializer_list<std::int64_t> list) {
  for (const std::int64_t value : list) push_back(value);
}

Dims::Dims(const std::vector<std::int64_t>& list) {
  for (const std::int64_t value : list) push_back(value);
}

void Dims::push_back(std::int64_t value) {
  if (count >= kMaxDims) {
    throw Error(ErrorCode::Unsupported, "expected a tensor of at most " + std::to_string(kMaxDims) +
                                            " canonical dimensions, found more");
  }
  values[static_cast<std::size_t>(count++)] = value;
}

std::int64_t num_elements(const Dims& shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product = checked_mul(product, extent);
  return product;
}

Dims contiguous_strides(const Dims& shape) {
  Dims strides;
  strides.count = shape.count;
  std::int64_t stride = 1;
  for (int i = shape.count - 1; i >= 0; --i) {
    strides[i] = stride;
    stride = checked_mul(stride, shape[i]);
  }
  return strides;
}

Box::Box(std::initializer_list<Interval> list) {
  PLAN_CHECK(list.size() <= static_cast<std::size_t>(kMaxDims));
  for (const Interval& interval : list) intervals[static_cast<std::size_t>(count++)] = interval;
}

Box Box::whole(const Dims& shape) {
  Box box;
  box.count = shape.count;
  for (int i = 0; i < shape.count; ++i) box[i] = {0, shape[i]};
  return box;
}

bool Box::empty() const {
  for (int i = 0; i < count; ++i) {
    if ((*this)[i].empty()) return true;
  }
  return false;
}

Dims Box::extents() const {
  Dims extents;
  extents.count = count;
  for (int i = 0; i < count; ++i) extents[i] = (*this)[i].length();
  return extents;
}

std::int64_t Box::num_elements() const { return empty() ? 0 : plan::num_elements(extents()); }

bool Box::contains(const Box& inner) const {
  PLAN_CHECK(count == inner.count);
  for (int i = 0; i < count; ++i) {
    if (inner[i].begin < (*this)[i].begin || inner[i].end > (*this)[i].end) return false;
  }
  return true;
}

Box intersect(const Box& a, const Box& b) {
  PLAN_CHECK(a.count == b.count);
  Box common;
  common.count = a.count;
  for (int i = 0; i < a.count; ++i) common[i] = intersect(a[i], b[i]);
  return common;
}

std::string to_string(const Box& box) {
  if (box.count == 0) return "scalar";
  std::string text;
  for (int i = 0; i < box.count; ++i) {
    if (i > 0) text += " x ";
    text += "[" + std::to_string(box[i].begin) + ", " + std::to_string(box[i].end) + ")";
  }
  return text;
}

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (int i = 0; i < dims.count; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(dims[i]);
  }
  return text + "]";
}

namespace {

// Appends the boxes of `range`, which lies in the sub-tensor of dimensions axis.. at the point that
// the leading intervals of `prefix` fix.
void append_boxes(const Dims& shape, const Dims& strides, Interval range, int axis, Box prefix,
                  std::vector<Box>& boxes) {
  if (range.empty()) return;
  for (int i = axis; i < shape.count; ++i) prefix[i] = {0, shape[i]};
  if (axis == shape.count) {
    boxes.push_back(prefix);
    return;
  }
  const std::int64_t stride = strides[axis];
  const std::int64_t first_whole = ceil_div(range.begin, stride);
  const std::int64_t last_whole = range.end / stride;
  if (first_whole > last_whole) {  // inside one row: go down
    const std::int64_t row = range.begin / stride;
    prefix[axis] = {row, row + 1};
    append_boxes(shape, strides, {range.begin - row * stride, range.end - row * stride}, axis + 1,
                 prefix, boxes);
    return;
  }
  if (range.begin < first_whole * stride) {  // head: the end of one row
    const std::int64_t row = first_whole - 1;
    prefix[axis] = {row, row + 1};
    append_boxes(shape, strides, {range.begin - row * stride, stride}, axis + 1, prefix, boxes);
  }
  if (first_whole < last_whole) {  // whole rows
    prefix[axis] = {first_whole, last_whole};
    for (int i = axis + 1; i < shape.count; ++i) prefix[i] = {0, shape[i]};
    boxes.push_back(prefix);
  }
  if (last_whole * stride < range.end) {  // tail: the start of one row
    prefix[axis] = {last_whole, last_whole + 1};
    append_boxes(shape, strides, {0, range.end - last_whole * stride}, axis + 1, prefix, boxes);
  }
}

}  // namespace

std::vector<Box> boxes_of_flat_range(const Dims& shape, Interval range) {
  PLAN_CHECK(range.begin >= 0 && range.end <= num_elements(shape));
  std::vector<Box> boxes;
  Box prefix;
  prefix.count = shape.count;
  append_boxes(shape, contiguous_strides(shape), range, 0, prefix, boxes);
  return boxes;
}

std::int64_t flat_index_of_first(const Dims& shape, const Box& box) {
  PLAN_CHECK(shape.count == box.count);
  const Dims strides = contiguous_strides(shape);
  std::int64_t index = 0;
  for (int i = 0; i < shape.count; ++i) {
    index = checked_add(index, checked_mul(box[i].begin, strides[i]));
  }
  return index;
}

}  // namespace plan
