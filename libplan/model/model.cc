#include "libplan/model/model.h"

#include <algorithm>
#include <set>
#include <utility>

#include "libplan/base/checked.h"
#include "libplan/base/error.h"

namespace plan {
namespace {

using Fault = std::optional<std::string>;  // what was required and found

std::string axis_fault(const char* field, int axis, const Dims& shape) {
  return std::string(field) + " must be -1 or an axis of " + to_string(shape) + ", found " +
         std::to_string(axis);
}

Fault fault_of_axes(const Tensor& tensor) {
  const std::int32_t count = tensor.shape.count;
  const auto outside = [count](int axis) { return axis < -1 || axis >= count; };
  if (outside(tensor.tp_axis)) return axis_fault("tp_axis", tensor.tp_axis, tensor.shape);
  if (outside(tensor.expert_axis)) {
    return axis_fault("expert_axis", tensor.expert_axis, tensor.shape);
  }
  if (outside(tensor.block_axis)) return axis_fault("block_axis", tensor.block_axis, tensor.shape);
  if (outside(tensor.vocab_axis)) return axis_fault("vocab_axis", tensor.vocab_axis, tensor.shape);
  const auto same = [](int a, int b) { return a >= 0 && a == b; };
  if (same(tensor.expert_axis, tensor.tp_axis) || same(tensor.expert_axis, tensor.block_axis) ||
      same(tensor.expert_axis, tensor.vocab_axis) || same(tensor.block_axis, tensor.tp_axis) ||
      same(tensor.block_axis, tensor.vocab_axis)) {
    return "tp_axis, expert_axis, block_axis and vocab_axis must differ (only vocab_axis may equal "
           "tp_axis), found " +
           std::to_string(tensor.tp_axis) + ", " + std::to_string(tensor.expert_axis) + ", " +
           std::to_string(tensor.block_axis) + ", " + std::to_string(tensor.vocab_axis);
  }
  if (tensor.block_axis < 0) return std::nullopt;
  if (tensor.tp_axis != tensor.block_axis + 1) {
    return "tp_axis must follow block_axis " + std::to_string(tensor.block_axis) + ", found " +
           std::to_string(tensor.tp_axis);
  }
  if (tensor.shape[tensor.block_axis] < 1)
    return "block_axis must have at least one entry, found 0";
  return std::nullopt;
}

Fault fault_of_layer(const Model& model, const Tensor& tensor) {
  if (tensor.stage != StageRole::Layer) {
    if (tensor.layer == -1) return std::nullopt;
    return "a tensor outside the layers must not name a layer, found layer " +
           std::to_string(tensor.layer);
  }
  if (tensor.layer >= 0 && tensor.layer < model.num_layers) return std::nullopt;
  return "layer must be one of the " + std::to_string(model.num_layers) +
         " layers, counted from 0, found " + std::to_string(tensor.layer);
}

Fault fault_of_experts(const Model& model, const Tensor& tensor) {
  const bool numbered = tensor.local_name.find("{e}") != std::string::npos;
  if (tensor.expert_axis < 0) {
    if (tensor.experts_fused) return "experts_fused needs an expert axis";
    if (numbered) return "{e} in local_name needs an expert axis";
    return std::nullopt;
  }
  const std::int64_t entries = tensor.shape[tensor.expert_axis];
  if (entries != model.num_experts) {
    return "the expert axis must have num_experts = " + std::to_string(model.num_experts) +
           " entries, found " + std::to_string(entries);
  }
  if (tensor.local_name.empty() || numbered != tensor.experts_fused) return std::nullopt;
  return tensor.experts_fused ? "local_name of fused experts must not contain {e}"
                              : "local_name of experts must contain {e}";
}

Fault fault_of_memory_order(const Tensor& tensor) {
  if (tensor.memory_order.empty()) return std::nullopt;
  std::vector<int> sorted = tensor.memory_order;
  std::sort(sorted.begin(), sorted.end());
  bool permutation = static_cast<std::int32_t>(sorted.size()) == tensor.shape.count;
  for (std::size_t i = 0; permutation && i < sorted.size(); ++i) {
    permutation = sorted[i] == static_cast<int>(i);
  }
  if (permutation) return std::nullopt;
  return "memory_order must name each of the " + std::to_string(tensor.shape.count) + " axes of " +
         to_string(tensor.shape) + " once";
}

Fault fault_of_shape(const Tensor& tensor) {
  for (const std::int64_t extent : tensor.shape) {
    if (extent < 0) return "extents must be >= 0, found shape " + to_string(tensor.shape);
  }
  try {
    num_elements(tensor.shape);
  } catch (const Error& error) {
    return "shape " + to_string(tensor.shape) + " is too large: " + error.message();
  }
  return std::nullopt;
}

Fault fault_of(const Model& model, const Tensor& tensor) {
  if (Fault fault = fault_of_shape(tensor)) return fault;
  if (Fault fault = fault_of_axes(tensor)) return fault;
  if (Fault fault = fault_of_layer(model, tensor)) return fault;
  if (Fault fault = fault_of_experts(model, tensor)) return fault;
  return fault_of_memory_order(tensor);
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

std::optional<ModelFault> find_fault(const Model& model) {
  std::set<std::string_view> names;
  std::int64_t last_key = -1;
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    const Tensor& tensor = model.tensors[i];
    if (tensor.name.empty()) return ModelFault{i, "a tensor needs a name"};
    if (!names.insert(tensor.name).second) {
      return ModelFault{i, "two tensors are named " + tensor.name};
    }
    if (Fault fault = fault_of(model, tensor)) return ModelFault{i, *std::move(fault)};
    if (tensor.stage == StageRole::Every) continue;
    const std::int64_t key = registration_key(model, tensor);
    if (key < last_key) {
      return ModelFault{i,
                        "tensors must stand in registration order (first, layers ascending, "
                        "last), found one that belongs before the one above it"};
    }
    last_key = key;
  }
  return std::nullopt;
}

void validate(const Model& model) {
  if (const std::optional<ModelFault> fault = find_fault(model)) {
    throw Error(ErrorCode::BadInput, fault->message, "tensor " + model.tensors[fault->tensor].name);
  }
}

}  // namespace plan
