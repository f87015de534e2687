// The value that every element of the state has under a seed, as a function of names and indices.
//
// Element i (row-major in the tensor's canonical shape) of a tensor's state is a hash of the seed,
// the two names and i; storages, ranks and layouts play no part, so the value can be asked for on
// either side of a switch. A derived state's elements are casts of another state's. Elements of
// padding that no source holds are the fill.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libplan/base/box.h"
#include "libplan/base/dtype.h"
#include "libplan/base/ids.h"
#include "libplan/schedule/ir.h"

namespace plan {

// As in training, the bf16 param is the cast of the fp32 main_param: {"param", "main_param"}. Holds
// for the tensors that have a source of state `from`; the others keep a value of their own.
struct DerivedState {
  std::string state;
  std::string from;
};

struct OracleRules {
  std::vector<DerivedState> derived;
  std::uint64_t padding_fill = 0;  // low bytes of it, as many as an element has
};

class OracleValues {
 public:
  // Reads the source storages' pieces once. The schedule must have passed schedule/validate, hold
  // all ranks' programs and outlive this. Error(BadInput) if two sources hold one tensor's state in
  // two dtypes, or a rule names a state that derives from itself or from a derived one.
  OracleValues(const ir::Schedule& schedule, std::uint64_t seed, const OracleRules& rules);

  // Elements of one (tensor, state) as a storage of `dtype` must hold them.
  struct Stream {
    std::uint64_t key = 0;
    Dtype origin = Dtype::UInt8;  // the hash has this dtype and is then cast
    Dtype dtype = Dtype::UInt8;
    std::uint64_t fill = 0;
    const Dims* shape = nullptr;
    // Set for padding that sources hold in part or not at all: boxes that they hold.
    const std::vector<Box>* held = nullptr;
  };

  // Error(Unsupported) if the sources' dtype has no cast to `dtype`. If no source holds any of it,
  // the elements have a value that no executor can find.
  Stream stream(TensorId tensor, StateId state, Dtype dtype) const;

  // Writes `count` <= kBlock elements first, first + stride, ... to `to`, densely.
  static constexpr std::int64_t kBlock = 1024;
  static void write(const Stream& stream, std::int64_t first, std::int64_t stride,
                    std::int64_t count, std::byte* to);

 private:
  // What the sources hold of one tensor's state.
  struct Held {
    std::optional<Dtype> dtype;
    std::vector<Box> padding_boxes;  // ascending, distinct; kept for padding tensors only
  };

  std::size_t index_of(TensorId tensor, StateId state) const;
  void read_sources();
  void read_rules(const OracleRules& rules);
  StateId origin_of(TensorId tensor, StateId state) const;

  const ir::Schedule& schedule_;
  std::uint64_t seed_;
  std::uint64_t padding_fill_;
  std::vector<StateId> derived_from_;  // per state; invalid: none
  std::vector<Held> held_;             // per tensor and state
  std::vector<std::uint64_t> tensor_hashes_;
  std::vector<std::uint64_t> state_hashes_;
};

// Coordinates of a row-major index.
Dims coordinates_of(const Dims& shape, std::int64_t flat);

}  // namespace plan
