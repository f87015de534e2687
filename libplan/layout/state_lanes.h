// The kinds of state that a layout carries, as lanes of the storages of one parameter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libplan/layout/layout.h"
#include "libplan/model/model.h"

namespace plan {

class StateLanes {
 public:
  // `states` are the kinds that move. The `param` state is added if it is not among them and the
  // model has values that the runtime cannot rebuild from a main copy: frozen parameters,
  // persistent buffers, and float32 parameters (whose main copy is the parameter itself).
  StateLanes(const Model& model, std::vector<StateKind> states);

  const std::vector<StateKind>& states() const { return states_; }

  // Lanes that follow the parameter itself, for one of this dtype; `must_move` where its value
  // cannot be rebuilt.
  std::vector<Lane> of_param(Dtype dtype, bool must_move) const;

  // Lanes that follow the main parameter of a trainable parameter of this dtype.
  const std::vector<Lane>& of_main(Dtype param_dtype) const {
    return param_dtype == Dtype::Float32 ? main_of_fp32_ : main_;
  }

  // All lanes of a parameter whose states have its own geometry, ascending by state.
  std::vector<Lane> of_parameter(Dtype dtype, bool trainable, bool buffer) const;

  // Appends a storage for the lanes in each kind of memory, for lanes in unlike memories are
  // unlike allocations; the key then tells the memory. None without lanes.
  void append_storages(const std::string& key, const std::vector<Lane>& lanes,
                       std::int64_t size_elems, const std::vector<Shard>& shards,
                       std::vector<Storage>& storages) const;

 private:
  std::vector<StateKind> states_;
  std::vector<Lane> param_;
  std::vector<Lane> main_;
  std::vector<Lane> main_of_fp32_;
  StateId forced_param_;  // invalid: `param` is among the states asked for, or nothing needs it
};

}  // namespace plan
