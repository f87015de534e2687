// A Model: the logical, global tensors of one training job, in registration order.
//
// In: a TransformerConfig (transformer.h), a Hugging Face config.json (huggingface.h) or an
// explicit model file (model_file.h). Out: tensors whose *canonical* shape makes every shard of
// every strategy a Box: gated fc1 is [2, ffn, hidden], grouped experts carry an expert axis [E, 2,
// ffn, hidden].
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libplan/base/box.h"
#include "libplan/base/dtype.h"
#include "libplan/base/ids.h"
#include "libplan/base/memory_kind.h"

namespace plan {

// Most tensors of a model; 1,000 layers of a large MoE have about 20,000.
inline constexpr std::int64_t kMaxTensors = std::int64_t{1} << 22;

// Which pipeline positions own a tensor.
enum class StageRole : std::uint8_t {
  First,         // pre-process: the first position only
  Layer,         // the position that owns decoder layer Tensor::layer
  Last,          // post-process: the last position only
  FirstAndLast,  // tied embeddings: one copy on each when they differ
  Every,         // a copy on every stage
};

// A logical tensor. Invariants (checked by validate()):
// * name is unique and not empty; shape has at most kMaxDims extents, all >= 0
// * tp_axis, expert_axis, block_axis, vocab_axis are -1 or a canonical axis; all different, except
//   that vocab_axis may equal tp_axis
// * block_axis, when given, has at least one entry and is followed by the axis that TP cuts in each
//   block: tp_axis = block_axis + 1
// * layer is in [0, num_layers) when stage is Layer, and -1 otherwise
// * an expert axis has Model::num_experts entries; expert-only fields are unset without one
// * memory_order is empty or a permutation of the axes
// * tensors stand in registration order: First and FirstAndLast, layers ascending, Last; Every
//   anywhere
struct Tensor {
  std::string name;               // checkpoint name with global layer number, e.g.
                                  // decoder.layers.3.mlp.linear_fc2.weight
  Dims shape;                     // canonical, in elements; the vocabulary axis without padding
  Dtype dtype = Dtype::BFloat16;  // of the `param` state
  int tp_axis = -1;  // cut evenly over TP (over expert TP when expert_axis >= 0); -1: replicated
  int expert_axis = -1;  // one entry per global expert, cut evenly over EP; -1: not an expert
  int block_axis = -1;   // count of interleaved blocks (gate, up) that TP cuts one by one; -1: none
  int vocab_axis = -1;   // padded to a multiple of make_vocab_size_divisible_by * tp; -1: none
  StageRole stage = StageRole::Layer;
  std::int32_t layer = -1;  // global decoder layer
  bool trainable = true;    // false: frozen; no main copy, not in the gradient buffers
  bool buffer = false;      // persistent buffer, not a parameter (router.expert_bias)
  // Local parameter name below `decoder.layers.{i}.` (or whole, outside layers), as the runtime
  // registers it; `{e}` stands for the local expert number. Empty: the logical name.
  std::string local_name;
  // Axis order of the local tensor in memory, outermost first; empty: 0, 1, 2, ... The legacy
  // grouped experts keep weight1 as [E, hidden, 2, ffn].
  std::vector<int> memory_order;
  // Experts with one local parameter for all of them, rather than one each.
  bool experts_fused = false;

  // Shape with the block axis merged into the axis it precedes: [2, ffn, hidden] -> [2*ffn,
  // hidden].
  Dims logical_shape() const;
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

enum class ExpertParams : std::uint8_t {
  Sequential,  // per local expert: fc1, fc2, then the next expert
  PerLinear,   // TEGroupedMLP: fc1 of all local experts, then fc2 of all
  Fused,       // legacy GroupedMLP: one parameter for all local experts
};

struct Model {
  std::string name;
  std::vector<Tensor> tensors;  // registration order: First, layers ascending, Last
  std::int32_t num_layers = 0;
  std::int32_t num_experts = 0;  // 0: dense
  ExpertParams expert_params = ExpertParams::Sequential;
  bool tied_embeddings = false;
  std::int64_t make_vocab_size_divisible_by = 128;
  // Layers whose tensors differ (MoE layer pattern): checkpoint keys then keep the layer number.
  bool homogeneous_layers = true;
  friend bool operator==(const Model&, const Model&) = default;
};

// A kind of state that exists for each tensor. The set is open: EMA weights or Muon momentum are
// further entries.
enum class StateFollows : std::uint8_t { Param, MainParam };

struct StateKind {
  std::string name;
  std::optional<Dtype> dtype;  // absent: the tensor's own
  StateFollows follows = StateFollows::MainParam;
  MemoryKind memory = MemoryKind::Device;
  friend bool operator==(const StateKind&, const StateKind&) = default;
};

// param (own dtype, parameter layout); main_param, exp_avg, exp_avg_sq (fp32, main-parameter
// layout).
std::optional<StateKind> builtin_state_kind(std::string_view name);

// Sum of elements over the tensors that are parameters, each once, without vocabulary padding.
std::int64_t num_parameters(const Model& model);

// The first tensor that breaks an invariant, and what was required and found.
struct ModelFault {
  std::size_t tensor = 0;  // index into Model::tensors
  std::string message;
};

// Checks the invariants of Tensor in the order in which they are listed.
std::optional<ModelFault> find_fault(const Model& model);

// Error(BadInput) that names the tensor if find_fault finds one.
void validate(const Model& model);

}  // namespace plan
