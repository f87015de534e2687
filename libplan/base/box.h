// Half-open intervals and boxes, and the decomposition of a flat range into boxes.
//
// A Box is a product of half-open intervals inside a tensor's canonical shape. A scalar has a box
// of zero dimensions and one element. Example used everywhere: a 4 x 4 tensor on a 2 x 2 mesh; the
// device at (1, 0) holds rows [2, 4) and columns [0, 2).
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace plan {

// Most dimensions of a canonical tensor: a 5-d kernel plus the axis that splits interleaved blocks.
inline constexpr int kMaxDims = 6;

struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;  // exclusive

  constexpr std::int64_t length() const { return end - begin; }
  constexpr bool empty() const { return end <= begin; }
  friend constexpr auto operator<=>(const Interval&, const Interval&) = default;
};

constexpr Interval intersect(Interval a, Interval b) {
  const std::int64_t begin = a.begin > b.begin ? a.begin : b.begin;
  const std::int64_t end = a.end < b.end ? a.end : b.end;
  return {begin, end < begin ? begin : end};
}

// Extents or strides, one number per dimension; unused entries are 0.
struct Dims {
  std::array<std::int64_t, kMaxDims> values{};
  std::int32_t count = 0;

  Dims() = default;
  Dims(std::initializer_list<std::int64_t> list);
  explicit Dims(const std::vector<std::int64_t>& list);  // Error(Unsupported) beyond kMaxDims

  std::int64_t operator[](int i) const { return values[static_cast<std::size_t>(i)]; }
  std::int64_t& operator[](int i) { return values[static_cast<std::size_t>(i)]; }
  void push_back(std::int64_t value);  // Error(Unsupported) beyond kMaxDims
  const std::int64_t* begin() const { return values.data(); }
  const std::int64_t* end() const { return values.data() + count; }
  friend auto operator<=>(const Dims&, const Dims&) = default;
};

// Product of the extents, checked; 1 for no dimensions.
std::int64_t num_elements(const Dims& shape);

// Row-major strides, in elements, of a contiguous tensor of this shape.
Dims contiguous_strides(const Dims& shape);

struct Box {
  std::array<Interval, kMaxDims> intervals{};  // unused entries are [0, 0)
  std::int32_t count = 0;

  Box() = default;
  Box(std::initializer_list<Interval> list);

  static Box whole(const Dims& shape);

  const Interval& operator[](int i) const { return intervals[static_cast<std::size_t>(i)]; }
  Interval& operator[](int i) { return intervals[static_cast<std::size_t>(i)]; }
  bool empty() const;  // true if any interval is empty; never for a scalar
  Dims extents() const;
  std::int64_t num_elements() const;  // checked; 0 when empty
  bool contains(const Box& inner) const;
  friend auto operator<=>(const Box&, const Box&) = default;
};

// The common part; boxes must have equal dimension counts. May be empty.
Box intersect(const Box& a, const Box& b);

// "[2, 4) x [0, 2)"; "scalar" for no dimensions.
std::string to_string(const Box& box);
std::string to_string(const Dims& dims);

// Cuts the flat range [range.begin, range.end) of a row-major box of the given shape into boxes, in
// ascending flat order. At most 2n-1 boxes for n dimensions; together they cover the range exactly.
// The boxes are relative to the shape's origin. An empty range gives no box.
std::vector<Box> boxes_of_flat_range(const Dims& shape, Interval range);

// Row-major position of the box's first element in a tensor of this shape.
std::int64_t flat_index_of_first(const Dims& shape, const Box& box);

}  // namespace plan
