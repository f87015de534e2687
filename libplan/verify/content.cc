#include "libplan/verify/content.h"

#include <algorithm>
#include <utility>

namespace plan::verify {
namespace {

// Bits that a dtype can tell apart: of the significand, and the range of exponents.
struct Precision {
  bool is_float;
  bool is_signed;
  int significand;
  int min_exponent;  // of the least positive value, subnormals counted
  int max_exponent;
};

Precision precision_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::Float64: return {true, true, 53, -1074, 1023};
    case Dtype::Float32: return {true, true, 24, -149, 127};
    case Dtype::Float16: return {true, true, 11, -24, 15};
    case Dtype::BFloat16: return {true, true, 8, -133, 127};
    case Dtype::Float8E4M3: return {true, true, 4, -9, 8};
    case Dtype::Float8E5M2: return {true, true, 3, -16, 15};
    case Dtype::Int64: return {false, true, 63, 0, 63};
    case Dtype::Int32: return {false, true, 31, 0, 31};
    case Dtype::Int16: return {false, true, 15, 0, 15};
    case Dtype::Int8: return {false, true, 7, 0, 7};
    case Dtype::UInt8: return {false, false, 8, 0, 7};
    case Dtype::Bool: return {false, false, 1, 0, 0};
  }
  return {false, false, 0, 0, 0};
}

}  // namespace

bool is_floating(Dtype dtype) { return precision_of(dtype).is_float; }

bool is_exact_cast(Dtype from, Dtype to) {
  if (from == to) return true;
  const Precision a = precision_of(from);
  const Precision b = precision_of(to);
  if (a.is_float && !b.is_float) return false;
  if (a.is_signed && !b.is_signed) return false;
  return a.significand <= b.significand && a.min_exponent >= b.min_exponent &&
         a.max_exponent <= b.max_exponent;
}

void append_part(const Span& span, std::int64_t begin, std::int64_t end, std::vector<Span>& out) {
  if (begin >= end) return;
  if (begin == 0 && end == span.bytes) {
    out.push_back(span);
    return;
  }
  Span part = span;
  if (span.content != Content::Element) {
    part.bytes = end - begin;
    out.push_back(part);
    return;
  }
  const std::int64_t element = size_bytes(span.dtype);
  const std::int64_t first = (begin + element - 1) / element * element;
  const std::int64_t last = end / element * element;
  const auto append_cut = [&](std::int64_t bytes) {
    if (bytes <= 0) return;
    Span cut;
    cut.content = Content::CutInside;
    cut.bytes = bytes;
    out.push_back(cut);
  };
  if (first > last) {
    append_cut(end - begin);
    return;
  }
  append_cut(first - begin);
  for (const Box& box :
       boxes_of_flat_range(span.box.extents(), {first / element, last / element})) {
    part.box = box;
    for (int axis = 0; axis < box.count; ++axis) {
      part.box[axis].begin += span.box[axis].begin;
      part.box[axis].end += span.box[axis].begin;
    }
    part.bytes = box.num_elements() * element;
    out.push_back(part);
  }
  append_cut(end - last);
}

void SpanStream::take(std::int64_t bytes, std::vector<Span>& out) {
  while (bytes > 0 && next_ < spans_.size()) {
    const Span& span = spans_[next_];
    const std::int64_t part = std::min(bytes, span.bytes - used_);
    append_part(span, used_, used_ + part, out);
    used_ += part;
    bytes -= part;
    if (used_ == span.bytes) {
      ++next_;
      used_ = 0;
    }
  }
  if (bytes == 0) return;
  Span missing;
  missing.bytes = bytes;
  out.push_back(missing);
}

void ByteMap::read(std::int64_t begin, std::int64_t end, std::vector<Span>& out) const {
  Span nothing;
  nothing.content = Content::Nothing;
  auto it = spans_.upper_bound(begin);
  if (it != spans_.begin()) --it;
  while (begin < end) {
    while (it != spans_.end() && it->first + it->second.bytes <= begin) ++it;
    const std::int64_t next = it == spans_.end() ? end : std::min(end, it->first);
    if (next > begin) {
      nothing.bytes = next - begin;
      out.push_back(nothing);
      begin = next;
      continue;
    }
    const std::int64_t stop = std::min(end, it->first + it->second.bytes);
    append_part(it->second, begin - it->first, stop - it->first, out);
    begin = stop;
  }
}

void ByteMap::erase(std::int64_t begin, std::int64_t end) {
  auto it = spans_.lower_bound(begin);
  if (it != spans_.begin() && std::prev(it)->first + std::prev(it)->second.bytes > begin) --it;
  std::vector<Span> kept;
  while (it != spans_.end() && it->first < end) {
    const auto [first, span] = *it;
    it = spans_.erase(it);
    for (const auto& [from, to] :
         {std::pair{std::int64_t{0}, begin - first}, std::pair{end - first, span.bytes}}) {
      if (from >= to) continue;
      kept.clear();
      append_part(span, from, to, kept);
      std::int64_t at = first + from;
      for (const Span& part : kept) {
        spans_.emplace(at, part);
        at += part.bytes;
      }
    }
  }
}

void ByteMap::write(std::int64_t begin, std::span<const Span> content) {
  std::int64_t end = begin;
  for (const Span& span : content) end += span.bytes;
  erase(begin, end);
  for (const Span& span : content) {
    if (span.bytes > 0) spans_.emplace(begin, span);
    begin += span.bytes;
  }
}

void SpanCursor::cut_head(std::int64_t bytes) {
  const Span whole = head();
  pop();
  std::vector<Span> parts;
  append_part(whole, 0, bytes, parts);
  append_part(whole, bytes, whole.bytes, parts);
  cut_.insert(cut_.end(), parts.rbegin(), parts.rend());
}

}  // namespace plan::verify
