#include "libplan/model/model.h"

#include <algorithm>
#include <set>

#include "libplan/base/checked.h"
#include "libplan/base/error.h"

namespace plan {
namespace {

[[noreturn]] void refuse(const Tensor& tensor, const std::string& message) {
  throw Error(ErrorCode::BadInput, message, "tensor " + tensor.name);
}

void check_axis(const Tensor& tensor, const char* field, int axis) {
  if (axis < -1 || axis >= tensor.shape.count) {
    refuse(tensor, std::string(field) + " must be -1 or an axis of " + to_string(tensor.shape) +
                       ", found " + std::to_string(axis));
  }
}

void check_axes(const Tensor& tensor) {
  check_axis(tensor, "tp_axis", tensor.tp_axis);
  check_axis(tensor, "expert_axis", tensor.expert_axis);
  check_axis(tensor, "block_axis", tensor.block_axis);
  check_axis(tensor, "vocab_axis", tensor.vocab_axis);
  const auto same = [](int a, int b) { return a >= 0 && a == b; };
  if (same(tensor.expert_axis, tensor.tp_axis) || same(tensor.expert_axis, tensor.block_axis) ||
      same(tensor.expert_axis, tensor.vocab_axis) || same(tensor.block_axis, tensor.tp_axis) ||
      same(tensor.block_axis, tensor.vocab_axis)) {
    refuse(tensor,
           "tp_axis, expert_axis, block_axis and vocab_axis must differ (only vocab_axis "
           "may equal tp_axis), found " +
               std::to_string(tensor.tp_axis) + ", " + std::to_string(tensor.expert_axis) + ", " +
               std::to_string(tensor.block_axis) + ", " + std::to_string(tensor.vocab_axis));
  }
  if (tensor.block_axis >= 0 && tensor.tp_axis != tensor.block_axis + 1) {
    refuse(tensor, "tp_axis must follow block_axis " + std::to_string(tensor.block_axis) +
                       ", found " + std::to_string(tensor.tp_axis));
  }
}

void check_layer(const Model& model, const Tensor& tensor) {
  if (tensor.stage != StageRole::Layer) {
    if (tensor.layer != -1) {
      refuse(tensor, "a tensor outside the layers must not name a layer, found layer " +
                         std::to_string(tensor.layer));
    }
    return;
  }
  if (tensor.layer < 0 || tensor.layer >= model.num_layers) {
    refuse(tensor, "layer must be 0 to " + std::to_string(model.num_layers - 1) + ", found " +
                       std::to_string(tensor.layer));
  }
}

void check_experts(const Model& model, const Tensor& tensor) {
  const bool numbered = tensor.local_name.find("{e}") != std::string::npos;
  if (tensor.expert_axis < 0) {
    if (tensor.experts_fused) refuse(tensor, "experts_fused needs an expert axis");
    if (numbered) refuse(tensor, "{e} in local_name needs an expert axis");
    return;
  }
  if (tensor.shape[tensor.expert_axis] != model.num_experts) {
    refuse(tensor, "the expert axis must have num_experts = " + std::to_string(model.num_experts) +
                       " entries, found " + std::to_string(tensor.shape[tensor.expert_axis]));
  }
  if (!tensor.local_name.empty() && numbered == tensor.experts_fused) {
    refuse(tensor, tensor.experts_fused ? "local_name of fused experts must not contain {e}"
                                        : "local_name of experts must contain {e}");
  }
}

void check_memory_order(const Tensor& tensor) {
  if (tensor.memory_order.empty()) return;
  std::vector<int> sorted = tensor.memory_order;
  std::sort(sorted.begin(), sorted.end());
  bool permutation = static_cast<std::int32_t>(sorted.size()) == tensor.shape.count;
  for (std::size_t i = 0; permutation && i < sorted.size(); ++i) {
    permutation = sorted[i] == static_cast<int>(i);
  }
  if (!permutation) {
    refuse(tensor, "memory_order must name each of the " + std::to_string(tensor.shape.count) +
                       " axes once");
  }
}

// Position in the registration order; Every has none.
std::int64_t registration_key(const Model& model, const Tensor& tensor) {
  if (tensor.stage == StageRole::Layer) return tensor.layer;
  return tensor.stage == StageRole::Last ? model.num_layers : -1;
}

}  // namespace

Dims Tensor::logical_shape() const {
  Dims logical;
  for (int axis = 0; axis < shape.count; ++axis) {
    if (axis == block_axis) {
      logical.push_back(checked_mul(shape[axis], shape[axis + 1]));
      ++axis;
    } else {
      logical.push_back(shape[axis]);
    }
  }
  return logical;
}

std::optional<StateKind> builtin_state_kind(std::string_view name) {
  if (name == "param") return StateKind{"param", std::nullopt, StateFollows::Param};
  if (name == "main_param" || name == "exp_avg" || name == "exp_avg_sq") {
    return StateKind{std::string(name), Dtype::Float32, StateFollows::MainParam};
  }
  return std::nullopt;
}

std::int64_t num_parameters(const Model& model) {
  std::int64_t sum = 0;
  for (const Tensor& tensor : model.tensors) {
    if (!tensor.buffer) sum = checked_add(sum, num_elements(tensor.shape));
  }
  return sum;
}

void validate(const Model& model) {
  std::set<std::string_view> names;
  std::int64_t last_key = -1;
  for (const Tensor& tensor : model.tensors) {
    if (tensor.name.empty()) refuse(tensor, "a tensor needs a name");
    if (!names.insert(tensor.name).second) refuse(tensor, "two tensors have this name");
    for (const std::int64_t extent : tensor.shape) {
      if (extent < 0) {
        refuse(tensor, "extents must be >= 0, found shape " + to_string(tensor.shape));
      }
    }
    num_elements(tensor.shape);  // refuses what overflows
    check_axes(tensor);
    check_layer(model, tensor);
    check_experts(model, tensor);
    check_memory_order(tensor);
    if (tensor.stage == StageRole::Every) continue;
    const std::int64_t key = registration_key(model, tensor);
    if (key < last_key) {
      refuse(tensor,
             "tensors must stand in registration order: first, layers ascending, last; found after "
             "a later one");
    }
    last_key = key;
  }
}

}  // namespace plan
