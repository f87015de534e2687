#include "libplan/execute/host/slice_list.h"

#include <algorithm>

#include "libplan/base/checked.h"
#include "libplan/base/error.h"

namespace plan {

void SliceList::append(std::byte* first, std::int64_t run_bytes,
                       std::span<const ir::SliceDim> dims) {
  std::int64_t bytes = run_bytes;
  for (const ir::SliceDim& dim : dims) bytes = checked_mul(bytes, dim.count);
  if (bytes == 0) return;
  Entry entry{first, run_bytes, checked_add(num_bytes(), bytes),
              static_cast<std::int32_t>(dims_.size()), 0};
  std::size_t used = dims.size();
  for (; used > 0; --used) {  // innermost dims that only lengthen the run
    const ir::SliceDim& dim = dims[used - 1];
    if (dim.count != 1 && dim.stride_bytes != entry.run_bytes) break;
    entry.run_bytes *= dim.count;
  }
  for (const ir::SliceDim& dim : dims.first(used)) {
    if (dim.count != 1) dims_.push_back(dim);
  }
  entry.num_dims = static_cast<std::int32_t>(dims_.size()) - entry.first_dim;
  entries_.push_back(entry);
}

void SliceList::clear() {
  entries_.clear();
  dims_.clear();
}

RunCursor::RunCursor(const SliceList& list, std::int64_t offset) : list_(list) {
  PLAN_CHECK(offset >= 0 && offset <= list.num_bytes());
  const auto& entries = list.entries();
  const auto found = std::upper_bound(
      entries.begin(), entries.end(), offset,
      [](std::int64_t wanted, const SliceList::Entry& entry) { return wanted < entry.end; });
  const auto entry = static_cast<std::size_t>(found - entries.begin());
  enter(entry, offset - (entry == 0 ? 0 : entries[entry - 1].end));
}

void RunCursor::start_row(std::byte* row) {
  row_ = row;
  pointer_ = row;
  left_ = run_;
}

// Stands at byte `offset` of an entry; past the last entry, at the end.
void RunCursor::enter(std::size_t entry, std::int64_t offset) {
  entry_ = entry;
  if (entry == list_.entries().size()) {
    left_ = run_ = rows_ = 0;
    return;
  }
  const SliceList::Entry& now = list_.entries()[entry];
  const std::span<const ir::SliceDim> dims = list_.dims(now);
  counters_.assign(dims.empty() ? 0 : dims.size() - 1, 0);
  run_ = now.run_bytes;
  row_stride_ = dims.empty() ? 0 : dims.back().stride_bytes;
  const std::int64_t total_rows = dims.empty() ? 1 : dims.back().count;
  std::int64_t run_index = offset / run_;
  const std::int64_t row_index = run_index % total_rows;
  std::int64_t rest = run_index / total_rows;
  outer_ = now.first;
  for (std::size_t i = counters_.size(); i-- > 0; rest /= dims[i].count) {
    counters_[i] = rest % dims[i].count;
    outer_ += counters_[i] * dims[i].stride_bytes;
  }
  rows_ = total_rows - row_index;
  start_row(outer_ + row_index * row_stride_);
  pointer_ += offset % run_;
  left_ -= offset % run_;
}

// Steps the outer dimensions once the present rows are used up.
void RunCursor::next_rows() {
  const std::span<const ir::SliceDim> dims = list_.dims(list_.entries()[entry_]);
  for (std::size_t i = counters_.size(); i-- > 0;) {
    outer_ += dims[i].stride_bytes;
    if (++counters_[i] < dims[i].count) {
      rows_ = dims.back().count;
      start_row(outer_);
      return;
    }
    outer_ -= counters_[i] * dims[i].stride_bytes;
    counters_[i] = 0;
  }
  enter(entry_ + 1, 0);
}

void RunCursor::advance(std::int64_t bytes) {
  pointer_ += bytes;
  left_ -= bytes;
  if (left_ > 0) return;
  if (--rows_ > 0) {
    start_row(row_ + row_stride_);
  } else {
    next_rows();
  }
}

void RunCursor::advance_rows(std::int64_t rows) {
  rows_ -= rows;
  if (rows_ > 0) {
    start_row(row_ + rows * row_stride_);
  } else {
    next_rows();
  }
}

}  // namespace plan
