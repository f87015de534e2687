#include "libplan/layout/local_box.h"

#include "libplan/base/checked.h"
#include "libplan/base/error.h"

namespace plan {
namespace {

std::vector<int> memory_order(const Tensor& tensor) {
  if (!tensor.memory_order.empty()) return tensor.memory_order;
  std::vector<int> order;
  for (int axis = 0; axis < tensor.shape.count; ++axis) order.push_back(axis);
  return order;
}

}  // namespace

std::vector<LocalPiece> pieces_of_param(const Model& model, const LocalParam& param,
                                        TensorId padding_tensor, const LocalCoords& coords) {
  const Tensor& tensor = model.tensors[static_cast<std::size_t>(param.tensor.value)];
  Box box = Box::whole(param.extents);
  const auto shift = [&](int axis, std::int64_t steps) {
    const std::int64_t begin = checked_mul(param.extents[axis], steps);
    box[axis] = {begin, checked_add(begin, param.extents[axis])};
  };
  if (tensor.tp_axis >= 0) shift(tensor.tp_axis, tensor.expert_axis >= 0 ? coords.etp : coords.tp);
  if (tensor.expert_axis >= 0) {
    const std::int64_t experts = param.extents[tensor.expert_axis];
    if (param.expert < 0) {
      shift(tensor.expert_axis, coords.ep);
    } else {
      PLAN_CHECK(experts == 1);
      shift(tensor.expert_axis,
            static_cast<std::int64_t>(coords.ep) * coords.experts_per_rank + param.expert);
    }
  }
  const std::vector<int> order = memory_order(tensor);
  if (tensor.vocab_axis < 0) return {{param.tensor, box, 0, order}};

  // Rows beyond the true vocabulary belong to the padding tensor, counted from its first row.
  const int axis = tensor.vocab_axis;
  PLAN_CHECK(order.front() == axis);
  const std::int64_t rows = tensor.shape[axis];
  Box real = box;
  real[axis] = intersect(box[axis], {0, rows});
  Box padding = box;
  padding[axis] = intersect(box[axis], {rows, box[axis].end});
  std::vector<LocalPiece> pieces;
  std::int64_t flat = 0;
  if (!real.empty()) {
    pieces.push_back({param.tensor, real, 0, order});
    flat = real.num_elements();
  }
  if (!padding.empty()) {
    padding[axis] = {padding[axis].begin - rows, padding[axis].end - rows};
    pieces.push_back({padding_tensor, padding, flat, order});
  }
  return pieces;
}

void append_shards(const std::vector<LocalPiece>& pieces, Interval flat_range,
                   std::int64_t offset_elems, std::vector<Shard>& shards) {
  for (const LocalPiece& piece : pieces) {
    if (piece.box.empty()) continue;
    Dims memory;  // extents, outermost in memory first
    for (const int axis : piece.axis_order) memory.push_back(piece.box[axis].length());
    const Interval whole{piece.flat_begin, checked_add(piece.flat_begin, num_elements(memory))};
    const Interval common = intersect(whole, flat_range);
    if (common.empty()) continue;
    const Dims strides = contiguous_strides(memory);
    const Interval inside{common.begin - whole.begin, common.end - whole.begin};
    for (const Box& local : boxes_of_flat_range(memory, inside)) {
      Shard shard;
      shard.tensor = piece.tensor;
      shard.box.count = memory.count;
      shard.strides_elems.count = memory.count;
      for (int i = 0; i < memory.count; ++i) {
        const int axis = piece.axis_order[static_cast<std::size_t>(i)];
        const std::int64_t origin = piece.box[axis].begin;
        shard.box[axis] = {origin + local[i].begin, origin + local[i].end};
        shard.strides_elems[axis] = strides[i];
      }
      const std::int64_t flat = piece.flat_begin + flat_index_of_first(memory, local);
      shard.offset_elems = checked_add(offset_elems, flat - flat_range.begin);
      shards.push_back(shard);
    }
  }
}

}  // namespace plan
