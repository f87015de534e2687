// Slices of live storages as plain addresses: the form in which bytes are copied.
//
// A SliceList is an ordered sequence of bytes in memory, put together from strided runs. Order of
// the bytes: entry by entry; inside an entry dims outermost first, then the run. A slice with lanes
// is one entry per lane. Example: columns [0, 2) of a 4 x 4 tensor of 4-byte elements is one entry
// with run_bytes 8 and dims {(4, 16)}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libplan/schedule/ir.h"

namespace plan {

class SliceList {
 public:
  // A run repeated over dims; entries hold the bytes [begin, end) of the list.
  struct Entry {
    std::byte* first = nullptr;
    std::int64_t run_bytes = 0;
    std::int64_t end = 0;        // bytes of this and all earlier entries
    std::int32_t first_dim = 0;  // into dims_
    std::int32_t num_dims = 0;   // 0: one run
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  // Appends one lane of a slice whose first byte is at `first`. Dims that repeat nothing are
  // dropped and neighbouring runs without a gap become one, so equal bytes have few forms.
  void append(std::byte* first, std::int64_t run_bytes, std::span<const ir::SliceDim> dims);
  void clear();

  std::int64_t num_bytes() const { return entries_.empty() ? 0 : entries_.back().end; }
  const std::vector<Entry>& entries() const { return entries_; }
  std::span<const ir::SliceDim> dims(const Entry& entry) const {
    return std::span(dims_).subspan(static_cast<std::size_t>(entry.first_dim),
                                    static_cast<std::size_t>(entry.num_dims));
  }

 private:
  std::vector<Entry> entries_;
  std::vector<ir::SliceDim> dims_;
};

// Walks a SliceList run by run from any byte on. The innermost dimension is shown as rows, so that
// a copy can move many equal runs at a stroke.
class RunCursor {
 public:
  // `offset` in [0, list.num_bytes()]; the list must outlive the cursor and stay as it is.
  RunCursor(const SliceList& list, std::int64_t offset);

  std::byte* pointer() const { return pointer_; }
  std::int64_t left() const { return left_; }  // bytes up to the end of this run; 0: at the end
  bool at_run_start() const { return left_ == run_; }
  std::int64_t run_bytes() const { return run_; }
  std::int64_t rows() const { return rows_; }  // equal runs from this one on, row_stride() apart
  std::int64_t row_stride() const { return row_stride_; }

  void advance(std::int64_t bytes);      // bytes <= left()
  void advance_rows(std::int64_t rows);  // at_run_start() and rows <= rows()

 private:
  void enter(std::size_t entry, std::int64_t offset);
  void next_rows();
  void start_row(std::byte* row);

  const SliceList& list_;
  std::size_t entry_ = 0;
  std::vector<std::int64_t> counters_;  // one per dimension but the innermost
  std::byte* outer_ = nullptr;          // first row of the present rows
  std::byte* row_ = nullptr;
  std::byte* pointer_ = nullptr;
  std::int64_t left_ = 0;
  std::int64_t run_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t row_stride_ = 0;
};

}  // namespace plan
