#include "libplan/model/model.h"

#include <catch2/catch.hpp>
#include <functional>

#include "libplan/base/error.h"

namespace plan {
namespace {

// A gated expert fc1 in layer 0 of 2 and an output weight.
Model valid_model() {
  Model model;
  model.num_layers = 2;
  model.num_experts = 4;
  Tensor experts;
  experts.name = "fc1";
  experts.local_name = "experts.{e}.fc1";
  experts.shape = {4, 2, 6, 8};
  experts.expert_axis = 0;
  experts.block_axis = 1;
  experts.tp_axis = 2;
  experts.layer = 0;
  Tensor output;
  output.name = "output";
  output.shape = {10, 8};
  output.tp_axis = 0;
  output.vocab_axis = 0;
  output.stage = StageRole::Last;
  model.tensors = {experts, output};
  return model;
}

TEST_CASE("a valid model passes") {
  CHECK_NOTHROW(validate(valid_model()));
  CHECK(valid_model().tensors[0].logical_shape() == Dims{4, 12, 8});
  CHECK(num_parameters(valid_model()) == 4 * 2 * 6 * 8 + 80);
}

TEST_CASE("each broken invariant is named") {
  struct Row {
    std::function<void(Tensor&)> fault;  // done to the expert tensor
    const char* expected;
  };
  for (const Row& row : std::vector<Row>{
           {[](Tensor& t) { t.name = ""; }, "tensor : a tensor needs a name"},
           {[](Tensor& t) { t.name = "output"; }, "tensor output: two tensors are named output"},
           {[](Tensor& t) { t.shape[3] = -1; },
            "tensor fc1: extents must be >= 0, found shape [4, 2, 6, -1]"},
           {[](Tensor& t) { t.tp_axis = 4; },
            "tensor fc1: tp_axis must be -1 or an axis of [4, 2, 6, 8], found 4"},
           {[](Tensor& t) { t.vocab_axis = 0; },
            "tensor fc1: tp_axis, expert_axis, block_axis and vocab_axis must differ (only "
            "vocab_axis may equal tp_axis), found 2, 0, 1, 0"},
           {[](Tensor& t) { t.tp_axis = 3; },
            "tensor fc1: tp_axis must follow block_axis 1, found 3"},
           {[](Tensor& t) { t.shape[1] = 0; },
            "tensor fc1: block_axis must have at least one entry, found 0"},
           {[](Tensor& t) { t.layer = 2; },
            "tensor fc1: layer must be one of the 2 layers, counted from 0, found 2"},
           {[](Tensor& t) { t.stage = StageRole::First; },
            "tensor fc1: a tensor outside the layers must not name a layer, found layer 0"},
           {[](Tensor& t) { t.shape[0] = 3; },
            "tensor fc1: the expert axis must have num_experts = 4 entries, found 3"},
           {[](Tensor& t) { t.experts_fused = true; },
            "tensor fc1: local_name of fused experts must not contain {e}"},
           {[](Tensor& t) {
              t.memory_order = {0, 1, 2};
            },
            "tensor fc1: memory_order must name each of the 4 axes of [4, 2, 6, 8] once"},
           {[](Tensor& t) {
              t.stage = StageRole::Last;
              t.layer = -1;
            },
            "no error"},
       }) {
    Model model = valid_model();
    row.fault(model.tensors[0]);
    std::string message = "no error";
    try {
      validate(model);
    } catch (const Error& error) {
      message = error.what();
    }
    CHECK(message == row.expected);
  }
  Model model = valid_model();
  std::swap(model.tensors[0], model.tensors[1]);
  CHECK_THROWS_WITH(validate(model), Catch::StartsWith("tensor fc1: tensors must stand in "
                                                       "registration order"));
}

TEST_CASE("the built-in kinds of state") {
  CHECK(builtin_state_kind("param")->follows == StateFollows::Param);
  CHECK_FALSE(builtin_state_kind("param")->dtype);
  for (const char* name : {"main_param", "exp_avg", "exp_avg_sq"}) {
    CHECK(builtin_state_kind(name) ==
          StateKind{name, Dtype::Float32, StateFollows::MainParam, MemoryKind::Device});
  }
  CHECK_FALSE(builtin_state_kind("ema"));
}

}  // namespace
}  // namespace plan
