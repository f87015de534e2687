#include "libplan/cost/estimate.h"

#include <algorithm>
#include <map>

#include "libplan/base/checked.h"
#include "libplan/cost/payload.h"

namespace plan {
namespace {

// Storage and scratch bytes alive on one rank, window by window: the largest sums. An alias takes
// no bytes of its own, and the source under it stays.
struct Peaks {
  std::int64_t alive = 0;
  std::int64_t staging = 0;
};

Peaks peaks_of(const ir::Program& program) {
  const auto own_bytes = [&](StorageId id) {
    const ir::Storage& storage = program.storages[static_cast<std::size_t>(id.value)];
    return storage.alias_of.valid() ? 0 : storage.size_bytes;
  };
  const auto is_scratch = [&](StorageId id) {
    return program.storages[static_cast<std::size_t>(id.value)].role == ir::StorageRole::Scratch;
  };
  std::int64_t alive = 0;
  std::int64_t staging = 0;
  for (const ir::Storage& storage : program.storages) {
    const bool initial =
        storage.role == ir::StorageRole::Source || storage.role == ir::StorageRole::Opaque;
    if (initial) alive = checked_add(alive, storage.size_bytes);
  }
  Peaks peaks{alive, 0};
  for (const ir::Window& window : program.windows) {
    for (const StorageId id : ir::view(program.storage_ids, window.allocate)) {
      alive = checked_add(alive, own_bytes(id));
      if (is_scratch(id)) staging = checked_add(staging, own_bytes(id));
    }
    peaks.alive = std::max(peaks.alive, alive);
    peaks.staging = std::max(peaks.staging, staging);
    for (const StorageId id : ir::view(program.storage_ids, window.free)) {
      alive -= own_bytes(id);
      if (is_scratch(id)) staging -= own_bytes(id);
    }
  }
  return peaks;
}

// Bytes of the target that this rank already had: copied from a source storage, or taken over.
std::int64_t local_bytes(const ir::Schedule& schedule, const ir::Program& program) {
  std::int64_t bytes = 0;
  for (const ir::Copy& copy : program.copies) {
    const auto role = [&](const ir::Slice& slice) {
      return program.storages[static_cast<std::size_t>(slice.storage.value)].role;
    };
    if (role(copy.from) != ir::StorageRole::Source || role(copy.to) != ir::StorageRole::Target)
      continue;
    if (!is_padding(schedule, program, copy.to))
      bytes = checked_add(bytes, ir::num_bytes(program, copy.to));
  }
  for (const ir::Storage& storage : program.storages) {
    if (!storage.alias_of.valid()) continue;
    for (const ir::Piece& piece : ir::view(program.pieces, storage.pieces)) {
      if (schedule.tensors[static_cast<std::size_t>(piece.tensor.value)].padding) continue;
      bytes = checked_add(bytes, checked_mul(piece.box.num_elements(), size_bytes(storage.dtype)));
    }
  }
  return bytes;
}

}  // namespace

std::vector<std::int64_t> peak_bytes(const ir::Schedule& schedule) {
  std::vector<std::int64_t> peaks;
  for (const ir::Program& program : schedule.programs) peaks.push_back(peaks_of(program).alive);
  return peaks;
}

Estimate estimate(const ir::Schedule& schedule, const Topology& topology) {
  Estimate result;
  std::map<RankId, std::int64_t> sent;
  for (const MessagePayload& message : message_payloads(schedule)) {
    const NodeId from = schedule.ranks[static_cast<std::size_t>(message.sender.value)].node;
    const NodeId to = schedule.ranks[static_cast<std::size_t>(message.receiver.value)].node;
    std::int64_t& sum = from == to ? result.intra_node_bytes : result.inter_node_bytes;
    sum = checked_add(sum, message.bytes);
    result.padding_bytes = checked_add(result.padding_bytes, message.padding_bytes);
    result.scalar_bytes = checked_add(result.scalar_bytes, message.opaque_bytes);
    std::int64_t& out = sent[message.sender];
    out = checked_add(out, message.bytes);
    result.max_sent_bytes = std::max(result.max_sent_bytes, out);
    ++result.messages;
  }
  result.total_bytes = checked_add(result.inter_node_bytes, result.intra_node_bytes);
  for (const ir::Program& program : schedule.programs) {
    result.local_bytes = checked_add(result.local_bytes, local_bytes(schedule, program));
    const Peaks peaks = peaks_of(program);
    result.peak_bytes.push_back(peaks.alive);
    result.staging_bytes.push_back(peaks.staging);
  }
  result.windows = schedule.num_windows;
  result.makespan_ns = simulate(schedule, topology);
  return result;
}

}  // namespace plan
