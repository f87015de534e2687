#include "libplan/demand/overlay.h"

#include <algorithm>

#include "libplan/base/error.h"

namespace plan {
namespace {

class Sweep {
 public:
  explicit Sweep(const std::vector<Box>& boxes) : boxes_(boxes) {}

  // Appends the cells of `members` in the dimensions axis.., inside the slab that prefix_ fixes.
  void run(int axis, const std::vector<std::int32_t>& members) {
    const int dims = boxes_[static_cast<std::size_t>(members.front())].count;
    if (axis == dims) {
      cells_.push_back({prefix_, members});
      return;
    }
    std::vector<std::int32_t> by_begin = members;
    std::stable_sort(by_begin.begin(), by_begin.end(), [&](std::int32_t a, std::int32_t b) {
      return interval(a, axis).begin < interval(b, axis).begin;
    });
    std::vector<std::int64_t> cuts;
    for (const std::int32_t m : members) {
      cuts.push_back(interval(m, axis).begin);
      cuts.push_back(interval(m, axis).end);
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    sweep_slabs(axis, by_begin, cuts);
  }

  std::vector<OverlayCell> take() { return std::move(cells_); }

 private:
  Interval interval(std::int32_t member, int axis) const {
    return boxes_[static_cast<std::size_t>(member)][axis];
  }

  void sweep_slabs(int axis, const std::vector<std::int32_t>& by_begin,
                   const std::vector<std::int64_t>& cuts) {
    std::vector<std::int32_t> active;
    std::size_t next = 0;
    std::size_t slab_begin = cells_.size();  // cells of the slab before this one
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      const Interval slab{cuts[i], cuts[i + 1]};
      std::erase_if(active, [&](std::int32_t m) { return interval(m, axis).end <= slab.begin; });
      for (; next < by_begin.size() && interval(by_begin[next], axis).begin <= slab.begin; ++next) {
        active.push_back(by_begin[next]);
      }
      if (active.empty()) {
        slab_begin = cells_.size();
        continue;
      }
      std::sort(active.begin(), active.end());
      const std::size_t begin = cells_.size();
      prefix_.count = boxes_[static_cast<std::size_t>(active.front())].count;
      prefix_[axis] = slab;
      run(axis + 1, active);
      if (extends(axis, slab_begin, begin)) {
        for (std::size_t c = slab_begin; c < begin; ++c) cells_[c].box[axis].end = slab.end;
        cells_.resize(begin);
      } else {
        slab_begin = begin;
      }
    }
  }

  // True if the cells from `second` on are those of [first, second) again, one slab further along
  // axis.
  bool extends(int axis, std::size_t first, std::size_t second) const {
    if (second - first != cells_.size() - second || first == second) return false;
    for (std::size_t i = 0; i < second - first; ++i) {
      const OverlayCell& a = cells_[first + i];
      const OverlayCell& b = cells_[second + i];
      if (a.box[axis].end != b.box[axis].begin || a.members != b.members) return false;
      for (int later = axis + 1; later < a.box.count; ++later) {
        if (a.box[later] != b.box[later]) return false;
      }
    }
    return true;
  }

  const std::vector<Box>& boxes_;
  std::vector<OverlayCell> cells_;
  Box prefix_;
};

}  // namespace

std::vector<OverlayCell> overlay(const std::vector<Box>& boxes) {
  std::vector<std::int32_t> members;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    PLAN_CHECK(boxes[i].count == boxes[0].count);
    if (!boxes[i].empty()) members.push_back(static_cast<std::int32_t>(i));
  }
  if (members.empty()) return {};
  Sweep sweep(boxes);
  sweep.run(0, members);
  return sweep.take();
}

}  // namespace plan
