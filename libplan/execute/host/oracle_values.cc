#include "libplan/execute/host/oracle_values.h"

#include <algorithm>
#include <cstring>

#include "libplan/base/error.h"
#include "libplan/execute/host/element_cast.h"

namespace plan {
namespace {

// The finalizer and the increment of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom
// number generators, 2014).
constexpr std::uint64_t kIncrement = 0x9e3779b97f4a7c15;

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::uint64_t hash_of_name(const std::string& name) {
  std::uint64_t hash = name.size();
  for (const char c : name) hash = mix(hash * kIncrement + static_cast<unsigned char>(c));
  return hash;
}

template <class T>
void write_hashes(std::uint64_t key, std::int64_t first, std::int64_t stride, std::int64_t count,
                  std::byte* to) {
  std::uint64_t at = key + static_cast<std::uint64_t>(first) * kIncrement;
  const std::uint64_t step = static_cast<std::uint64_t>(stride) * kIncrement;
  for (std::int64_t i = 0; i < count; ++i, at += step) {
    const auto value = static_cast<T>(mix(at));
    std::memcpy(to + i * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
  }
}

void write_hashes(std::uint64_t key, Dtype dtype, std::int64_t first, std::int64_t stride,
                  std::int64_t count, std::byte* to) {
  switch (size_bytes(dtype)) {
    case 1: return write_hashes<std::uint8_t>(key, first, stride, count, to);
    case 2: return write_hashes<std::uint16_t>(key, first, stride, count, to);
    case 4: return write_hashes<std::uint32_t>(key, first, stride, count, to);
    default: return write_hashes<std::uint64_t>(key, first, stride, count, to);
  }
}

bool holds(const Box& box, const Dims& index) {
  for (int i = 0; i < box.count; ++i) {
    if (index[i] < box[i].begin || index[i] >= box[i].end) return false;
  }
  return true;
}

}  // namespace

Dims coordinates_of(const Dims& shape, std::int64_t flat) {
  Dims index = shape;
  for (int i = shape.count - 1; i >= 0; --i) {
    index[i] = flat % shape[i];
    flat /= shape[i];
  }
  return index;
}

OracleValues::OracleValues(const ir::Schedule& schedule, std::uint64_t seed,
                           const OracleRules& rules)
    : schedule_(schedule),
      seed_(seed),
      padding_fill_(rules.padding_fill),
      derived_from_(schedule.states.size()),
      held_(schedule.tensors.size() * schedule.states.size()) {
  for (const ir::TensorEntry& tensor : schedule.tensors) {
    tensor_hashes_.push_back(hash_of_name(tensor.name));
  }
  for (const std::string& state : schedule.states) state_hashes_.push_back(hash_of_name(state));
  read_rules(rules);
  read_sources();
}

std::size_t OracleValues::index_of(TensorId tensor, StateId state) const {
  return static_cast<std::size_t>(tensor.value) * schedule_.states.size() +
         static_cast<std::size_t>(state.value);
}

// A rule about states that the schedule does not have says nothing.
void OracleValues::read_rules(const OracleRules& rules) {
  const auto find = [&](const std::string& name) {
    const auto found = std::find(schedule_.states.begin(), schedule_.states.end(), name);
    return found == schedule_.states.end()
               ? StateId()
               : StateId(static_cast<std::int32_t>(found - schedule_.states.begin()));
  };
  for (const DerivedState& rule : rules.derived) {
    const StateId state = find(rule.state);
    if (state.valid()) derived_from_[static_cast<std::size_t>(state.value)] = find(rule.from);
  }
  for (const DerivedState& rule : rules.derived) {
    const StateId from = find(rule.from);
    if (!from.valid() || !derived_from_[static_cast<std::size_t>(from.value)].valid()) continue;
    throw Error(ErrorCode::BadInput, "expected states derived from stored ones, found " +
                                         rule.state + " derived from " + rule.from +
                                         ", which is derived");
  }
}

void OracleValues::read_sources() {
  for (const ir::Program& program : schedule_.programs) {
    for (const ir::Storage& storage : program.storages) {
      if (storage.role != ir::StorageRole::Source) continue;
      for (const ir::Piece& piece : ir::view(program.pieces, storage.pieces)) {
        Held& held = held_[index_of(piece.tensor, storage.state)];
        const ir::TensorEntry& tensor =
            schedule_.tensors[static_cast<std::size_t>(piece.tensor.value)];
        if (held.dtype.value_or(storage.dtype) != storage.dtype) {
          throw Error(ErrorCode::BadInput,
                      "expected one dtype for all sources, found " +
                          std::string(name_of(*held.dtype)) + " and " +
                          std::string(name_of(storage.dtype)),
                      "tensor " + tensor.name + ", state " +
                          schedule_.states[static_cast<std::size_t>(storage.state.value)]);
        }
        held.dtype = storage.dtype;
        if (tensor.padding) held.padding_boxes.push_back(piece.box);
      }
    }
  }
  for (Held& held : held_) {
    std::vector<Box>& boxes = held.padding_boxes;
    std::sort(boxes.begin(), boxes.end());
    boxes.erase(std::unique(boxes.begin(), boxes.end()), boxes.end());
  }
}

StateId OracleValues::origin_of(TensorId tensor, StateId state) const {
  const StateId from = derived_from_[static_cast<std::size_t>(state.value)];
  return from.valid() && held_[index_of(tensor, from)].dtype ? from : state;
}

OracleValues::Stream OracleValues::stream(TensorId tensor, StateId state, Dtype dtype) const {
  const ir::TensorEntry& entry = schedule_.tensors[static_cast<std::size_t>(tensor.value)];
  const StateId origin = origin_of(tensor, state);
  const Held& held = held_[index_of(tensor, origin)];
  Stream stream;
  stream.key =
      mix(mix(seed_ * kIncrement + 1) ^ tensor_hashes_[static_cast<std::size_t>(tensor.value)]) ^
      mix(state_hashes_[static_cast<std::size_t>(origin.value)] + kIncrement);
  stream.origin = held.dtype.value_or(dtype);
  stream.dtype = dtype;
  stream.fill = padding_fill_;
  stream.shape = &entry.shape;
  if (!can_convert(stream.origin, dtype)) {
    throw Error(ErrorCode::Unsupported,
                "expected a target dtype that its source's can be cast to, found " +
                    std::string(name_of(dtype)) + " from " + std::string(name_of(stream.origin)),
                "tensor " + entry.name);
  }
  const Box whole = Box::whole(entry.shape);
  const bool all_held = std::find(held.padding_boxes.begin(), held.padding_boxes.end(), whole) !=
                        held.padding_boxes.end();
  if (entry.padding && !all_held) stream.held = &held.padding_boxes;
  return stream;
}

void OracleValues::write(const Stream& stream, std::int64_t first, std::int64_t stride,
                         std::int64_t count, std::byte* to) {
  if (stream.origin == stream.dtype) {
    write_hashes(stream.key, stream.dtype, first, stride, count, to);
  } else {
    std::byte hashes[kBlock * 8];
    write_hashes(stream.key, stream.origin, first, stride, count, hashes);
    convert_elements(hashes, stream.origin, to, stream.dtype, count);
  }
  if (stream.held == nullptr) return;
  const auto width = static_cast<std::size_t>(size_bytes(stream.dtype));
  for (std::int64_t i = 0; i < count; ++i) {
    const Dims index = coordinates_of(*stream.shape, first + i * stride);
    const bool moved = std::any_of(stream.held->begin(), stream.held->end(),
                                   [&](const Box& box) { return holds(box, index); });
    if (!moved) std::memcpy(to + i * static_cast<std::int64_t>(width), &stream.fill, width);
  }
}

}  // namespace plan
