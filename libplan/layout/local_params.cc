#include <algorithm>

#include "libplan/base/checked.h"
#include "libplan/base/error.h"
#include "libplan/layout/megatron_chunk.h"

namespace plan {
namespace {

std::string replaced(std::string text, std::string_view mark, std::int32_t number) {
  const std::size_t at = text.find(mark);
  if (at != std::string::npos) text.replace(at, mark.size(), std::to_string(number));
  return text;
}

// Canonical extents of what one rank holds of the tensor; an expert axis becomes `experts` long.
Dims local_extents(const Model& model, const Tensor& tensor, const CutSizes& cuts,
                   std::int64_t experts) {
  const std::int32_t ways = tensor.expert_axis >= 0 ? cuts.etp : cuts.tp;
  Dims extents = tensor.shape;
  if (tensor.vocab_axis >= 0) {
    extents[tensor.vocab_axis] = ceil_to(extents[tensor.vocab_axis],
                                         checked_mul(model.make_vocab_size_divisible_by, cuts.tp));
  }
  if (tensor.tp_axis >= 0) {
    std::int64_t& extent = extents[tensor.tp_axis];
    if (extent % ways != 0) {
      throw Error(ErrorCode::BadInput,
                  std::string(tensor.expert_axis >= 0 ? "expert_tensor_parallel_size "
                                                      : "tensor_model_parallel_size ") +
                      std::to_string(ways) + " must divide axis " + std::to_string(tensor.tp_axis) +
                      " of " + to_string(tensor.shape) + ", found " + std::to_string(extent) +
                      " elements there; choose a divisor",
                  tensor.name);
    }
    extent /= ways;
  }
  if (tensor.expert_axis >= 0) extents[tensor.expert_axis] = experts;
  return extents;
}

// The shape the runtime registers: block axis merged, one expert's axis dropped; a fused parameter
// is stored as weight1 (hidden, experts * gated ffn) or weight2 (experts * ffn, hidden).
Dims registered_shape(const Tensor& tensor, const Dims& extents) {
  if (tensor.experts_fused) {
    const std::int64_t experts = extents[tensor.expert_axis];
    Dims rest;
    for (const int axis : tensor.memory_order) {
      if (axis != tensor.expert_axis) rest.push_back(extents[axis]);
    }
    const int last = rest.count - 1;
    if (tensor.block_axis >= 0)
      return Dims{rest[0], checked_mul(experts, checked_mul(rest[last - 1], rest[last]))};
    const bool ffn_outer = tensor.memory_order[1] == tensor.tp_axis;
    return ffn_outer ? Dims{checked_mul(experts, rest[0]), rest[1]}
                     : Dims{rest[0], checked_mul(experts, rest[1])};
  }
  Dims shape;
  for (int axis = 0; axis < extents.count; ++axis) {
    if (axis == tensor.expert_axis) continue;
    if (axis == tensor.block_axis) {
      shape.push_back(checked_mul(extents[axis], extents[axis + 1]));
      ++axis;
    } else {
      shape.push_back(extents[axis]);
    }
  }
  return shape;
}

class ParamLister {
 public:
  ParamLister(const Model& model, const CutSizes& cuts, MegatronVersion version)
      : model_(model), cuts_(cuts) {
    if (model.num_experts > 0 && model.num_experts % cuts.ep != 0) {
      throw Error(ErrorCode::BadInput, "expert_model_parallel_size " + std::to_string(cuts.ep) +
                                           " must divide " + std::to_string(model.num_experts) +
                                           " experts");
    }
    if (model.num_experts == 0 && cuts.ep > 1) {
      throw Error(ErrorCode::BadInput,
                  "the model has no experts, found expert_model_parallel_size " +
                      std::to_string(cuts.ep) + "; set it to 1");
    }
    // 0.11 and 0.13 reduce experts apart only when ep > 1; 0.20 also when etp differs from tp.
    expert_buffers_ = cuts.ep > 1 || (version == MegatronVersion::V020 && cuts.etp != cuts.tp);
  }

  void add(std::int32_t id, std::int32_t local_layer, std::int32_t expert, bool is_last_copy) {
    const Tensor& tensor = model_.tensors[static_cast<std::size_t>(id)];
    const std::int64_t experts = tensor.experts_fused ? experts_per_rank() : 1;
    LocalParam param;
    param.tensor = TensorId(id);
    param.expert = tensor.experts_fused ? -1 : expert;
    param.extents = local_extents(model_, tensor, cuts_, experts);
    param.registered_shape = registered_shape(tensor, param.extents);
    param.numel = num_elements(param.extents);
    param.dtype = tensor.dtype;
    param.trainable = tensor.trainable;
    param.buffer = tensor.buffer;
    param.expert_parallel = tensor.expert_axis >= 0 && expert_buffers_;
    std::string name = tensor.local_name.empty() ? tensor.name : tensor.local_name;
    name = replaced(std::move(name), "{e}", expert);
    if (local_layer >= 0 && !tensor.local_name.empty()) {
      name = "decoder.layers." + std::to_string(local_layer) + "." + name;
    }
    // The copy of a tied embedding on the last stage is the output layer there.
    param.name = is_last_copy ? "output_layer.weight" : name;
    param.tied_copy = is_last_copy;
    params_.push_back(std::move(param));
  }

  std::int32_t experts_per_rank() const { return model_.num_experts / cuts_.ep; }

  // Tensors [begin, end) of one layer; runs of expert tensors are expanded over the local experts.
  void add_layer(std::int32_t begin, std::int32_t end, std::int32_t local_layer) {
    for (std::int32_t id = begin; id < end;) {
      std::int32_t run = id;
      while (run < end && model_.tensors[static_cast<std::size_t>(run)].expert_axis >= 0) ++run;
      if (run == id) {
        add(id++, local_layer, -1, false);
        continue;
      }
      add_experts(id, run, local_layer);
      id = run;
    }
  }

  std::vector<LocalParam> take() { return std::move(params_); }

 private:
  void add_experts(std::int32_t begin, std::int32_t end, std::int32_t local_layer) {
    if (model_.expert_params == ExpertParams::Fused) {
      for (std::int32_t id = begin; id < end; ++id) add(id, local_layer, 0, false);
      return;
    }
    if (model_.expert_params == ExpertParams::Sequential) {
      for (std::int32_t expert = 0; expert < experts_per_rank(); ++expert) {
        for (std::int32_t id = begin; id < end; ++id) add(id, local_layer, expert, false);
      }
      return;
    }
    // One module per linear: its weights and biases, expert by expert, before the next linear's.
    for (std::int32_t id = begin; id < end;) {
      std::int32_t next = id + 1;
      while (next < end && linear_of(next) == linear_of(id)) ++next;
      for (std::int32_t expert = 0; expert < experts_per_rank(); ++expert) {
        for (std::int32_t t = id; t < next; ++t) add(t, local_layer, expert, false);
      }
      id = next;
    }
  }

  // "...experts.linear_fc1" of "...experts.linear_fc1.weight".
  std::string_view linear_of(std::int32_t id) const {
    const std::string_view name = model_.tensors[static_cast<std::size_t>(id)].name;
    return name.substr(0, name.rfind('.'));
  }

  const Model& model_;
  const CutSizes& cuts_;
  bool expert_buffers_ = false;
  std::vector<LocalParam> params_;
};

}  // namespace

std::vector<LocalParam> local_params(const Model& model, const CutSizes& cuts,
                                     MegatronVersion version, bool is_first, bool is_last,
                                     std::int32_t first_layer, std::int32_t num_layers) {
  ParamLister lister(model, cuts, version);
  const auto count = static_cast<std::int32_t>(model.tensors.size());
  for (std::int32_t id = 0; id < count;) {
    const Tensor& tensor = model.tensors[static_cast<std::size_t>(id)];
    std::int32_t end = id + 1;
    switch (tensor.stage) {
      case StageRole::Every: lister.add(id, -1, -1, false); break;
      case StageRole::First:
      case StageRole::FirstAndLast:
        if (is_first) lister.add(id, -1, -1, false);
        break;
      case StageRole::Last:
        if (is_last) lister.add(id, -1, -1, false);
        break;
      case StageRole::Layer: {
        while (end < count && model.tensors[static_cast<std::size_t>(end)].layer == tensor.layer)
          ++end;
        const std::int32_t local = tensor.layer - first_layer;
        if (local >= 0 && local < num_layers) lister.add_layer(id, end, local);
        break;
      }
    }
    id = end;
  }
  if (is_last && !is_first) {
    for (std::int32_t id = 0; id < count; ++id) {
      if (model.tensors[static_cast<std::size_t>(id)].stage == StageRole::FirstAndLast) {
        lister.add(id, -1, -1, true);
      }
    }
  }
  std::vector<LocalParam> params = lister.take();
  for (LocalParam& param : params) {
    const Tensor& tensor = model.tensors[static_cast<std::size_t>(param.tensor.value)];
    param.shared_embedding = tensor.stage == StageRole::FirstAndLast && is_first != is_last;
  }
  return params;
}

}  // namespace plan
