// What bytes hold: sequences of Spans, and their cutting and comparing.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "libplan/base/box.h"
#include "libplan/base/dtype.h"
#include "libplan/base/ids.h"

namespace plan::verify {

enum class Content : std::uint8_t {
  Element,    // elements of a tensor's state
  Fill,       // a pattern
  Opaque,     // bytes that are not state
  Nothing,    // bytes that no one has written, or that carry no state
  CutInside,  // a part of an element
  Unknown,    // a finding has been made already, or the sender is absent: passes every check
};

// Consecutive bytes of one kind of content. Elements: those of `box` in row-major order.
struct Span {
  Content content = Content::Unknown;
  Dtype dtype = Dtype::UInt8;  // of Element
  bool rounded = false;        // a conversion has lost bits of the source's value
  TensorId tensor;
  StateId state;
  Box box;
  std::int64_t bytes = 0;
};

// Appends bytes [begin, end) of a span. Cut elements become CutInside.
void append_part(const Span& span, std::int64_t begin, std::int64_t end, std::vector<Span>& out);

// Hands out a sequence from front to back.
class SpanStream {
 public:
  explicit SpanStream(std::vector<Span> spans) : spans_(std::move(spans)) {}

  // Appends the next `bytes`; what is missing at the end is Unknown.
  void take(std::int64_t bytes, std::vector<Span>& out);

 private:
  std::vector<Span> spans_;
  std::size_t next_ = 0;
  std::int64_t used_ = 0;  // bytes of spans_[next_]
};

// The bytes of a storage without a fixed meaning.
class ByteMap {
 public:
  void clear() { spans_.clear(); }
  void read(std::int64_t begin, std::int64_t end, std::vector<Span>& out) const;
  void write(std::int64_t begin, std::span<const Span> content);

 private:
  void erase(std::int64_t begin, std::int64_t end);
  std::map<std::int64_t, Span> spans_;  // by first byte; absent bytes hold Nothing
};

// Walks two sequences of equally many bytes side by side, cut so that both parts have the same
// size. Equal sequences of elements, however they were cut before, come in equal boxes: two boxes
// of equally many elements hold the same sequence only if they are the same box.
template <class Visit>
void for_each_pair(std::span<const Span> a, std::span<const Span> b, Visit visit);

// One side of the walk.
class SpanCursor {
 public:
  explicit SpanCursor(std::span<const Span> spans) : spans_(spans) {}
  bool done() const { return cut_.empty() && next_ == spans_.size(); }
  const Span& head() const { return cut_.empty() ? spans_[next_] : cut_.back(); }
  void pop() {
    if (cut_.empty()) {
      ++next_;
    } else {
      cut_.pop_back();
    }
  }
  // Replaces the head by parts of which the first ends at or before `bytes`.
  void cut_head(std::int64_t bytes);

 private:
  std::span<const Span> spans_;
  std::size_t next_ = 0;
  std::vector<Span> cut_;  // parts of the head, last one first
};

template <class Visit>
void for_each_pair(std::span<const Span> a, std::span<const Span> b, Visit visit) {
  SpanCursor left(a);
  SpanCursor right(b);
  while (!left.done() && !right.done()) {
    if (left.head().bytes > right.head().bytes) {
      left.cut_head(right.head().bytes);
    } else if (right.head().bytes > left.head().bytes) {
      right.cut_head(left.head().bytes);
    } else {
      visit(left.head(), right.head());
      left.pop();
      right.pop();
    }
  }
}

// The cast loses no value: every number of `from` is one of `to`.
bool is_exact_cast(Dtype from, Dtype to);

bool is_floating(Dtype dtype);

}  // namespace plan::verify
