#include "tests/layout/flat_content.h"

namespace plan::test {

std::vector<std::int64_t> flat_of(const Dims& shape, const LocalContent& content) {
  std::vector<std::int64_t> flat{0};
  for (int dim = 0; dim < shape.count; ++dim) {
    std::vector<std::int64_t> next;
    for (const std::int64_t outer : flat) {
      for (const Interval& run : content.runs[static_cast<std::size_t>(dim)]) {
        for (std::int64_t i = run.begin; i < run.end; ++i) next.push_back(outer * shape[dim] + i);
      }
    }
    flat = std::move(next);
  }
  return flat;
}

std::vector<std::int64_t> flat_of(const Layout& layout, const Storage& storage) {
  std::vector<std::int64_t> flat(static_cast<std::size_t>(storage.size_elems), -1);
  for (const Shard& shard : storage.shards) {
    const Dims& shape = layout.tensors[static_cast<std::size_t>(shard.tensor.value)].shape;
    for (std::int64_t n = 0; n < shard.box.num_elements(); ++n) {
      std::int64_t rest = n, index = 0, stride = 1, place = shard.offset_elems;
      for (int axis = shape.count; axis-- > 0;) {
        const std::int64_t step = rest % shard.box[axis].length();
        rest /= shard.box[axis].length();
        index += (shard.box[axis].begin + step) * stride;
        stride *= shape[axis];
        place += step * shard.strides_elems[axis];
      }
      flat.at(static_cast<std::size_t>(place)) = index;
    }
  }
  return flat;
}

}  // namespace plan::test
