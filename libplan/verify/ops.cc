#include "libplan/verify/ops.h"

#include <utility>

namespace plan::verify {
namespace {

template <class T>
const T& at(const std::vector<T>& array, std::int32_t index) {
  return array[static_cast<std::size_t>(index)];
}

std::span<const ir::Slice> one(const ir::Slice& slice) { return {&slice, 1}; }

}  // namespace

std::span<const ir::Slice> read_slices(const ir::Program& program, const OpRef& op) {
  switch (op.kind) {
    case OpKind::Copy: return one(at(program.copies, op.index).from);
    case OpKind::Convert: return one(at(program.converts, op.index).from);
    case OpKind::Send: return ir::view(program.slices, at(program.sends, op.index).slices);
    case OpKind::Fill:
    case OpKind::Receive: break;
  }
  return {};
}

std::span<const ir::Slice> written_slices(const ir::Program& program, const OpRef& op) {
  switch (op.kind) {
    case OpKind::Copy: return one(at(program.copies, op.index).to);
    case OpKind::Fill: return one(at(program.fills, op.index).to);
    case OpKind::Convert: return one(at(program.converts, op.index).to);
    case OpKind::Receive: return ir::view(program.slices, at(program.receives, op.index).slices);
    case OpKind::Send: break;
  }
  return {};
}

std::string describe(const ir::Program& program, const OpRef& op, int slice) {
  std::string text;
  switch (op.kind) {
    case OpKind::Copy: text = "copy " + std::to_string(op.index); break;
    case OpKind::Fill: text = "fill " + std::to_string(op.index); break;
    case OpKind::Convert: text = "convert " + std::to_string(op.index); break;
    case OpKind::Send: {
      const ir::Send& send = at(program.sends, op.index);
      text =
          "send " + std::to_string(send.message) + " to rank " + std::to_string(send.to_rank.value);
      break;
    }
    case OpKind::Receive: {
      const ir::Receive& receive = at(program.receives, op.index);
      text = "receive " + std::to_string(receive.message) + " from rank " +
             std::to_string(receive.from_rank.value);
      break;
    }
  }
  if (slice >= 0) text += ", slice " + std::to_string(slice);
  return text;
}

Diagnostic finding_at(const ir::Program& program, const OpRef& op, int slice, std::string rule,
                      std::string message) {
  Diagnostic diagnostic;
  diagnostic.rule = std::move(rule);
  diagnostic.message = std::move(message);
  diagnostic.rank = program.rank;
  diagnostic.window = at(program.windows, op.window).number;
  diagnostic.op = describe(program, op, slice);
  return diagnostic;
}

std::int64_t lane_bytes(const ir::Program& program, const ir::Slice& slice) {
  std::int64_t bytes = slice.run_bytes;
  for (const ir::SliceDim& dim : ir::view(program.slice_dims, slice.dims)) bytes *= dim.count;
  return bytes;
}

std::int64_t total_bytes(const ir::Program& program, std::span<const ir::Slice> slices) {
  std::int64_t bytes = 0;
  for (const ir::Slice& slice : slices) bytes += slice.lanes * lane_bytes(program, slice);
  return bytes;
}

const ir::Storage& storage_of(const ir::Program& program, StorageId id) {
  return at(program.storages, id.value);
}

std::string_view slice_fault(const ir::Program& program, const ir::Slice& slice) {
  const std::int64_t bytes = lane_bytes(program, slice);
  if (bytes == 0) return {};
  std::int64_t end = slice.offset_bytes + slice.run_bytes;
  for (const ir::SliceDim& dim : ir::view(program.slice_dims, slice.dims)) {
    end += (dim.count - 1) * dim.stride_bytes;
  }
  for (std::int32_t lane = 0; lane < slice.lanes; ++lane) {
    const ir::Storage& storage = storage_of(program, StorageId(slice.storage.value + lane));
    if (end > storage.size_bytes) return "V401";
    if (bytes > storage.size_bytes) return "V404";
    const std::int64_t element = size_bytes(storage.dtype);
    if (slice.offset_bytes % element != 0 || slice.run_bytes % element != 0) return "V402";
    for (const ir::SliceDim& dim : ir::view(program.slice_dims, slice.dims)) {
      if (dim.count > 1 && dim.stride_bytes % element != 0) return "V402";
    }
  }
  return {};
}

bool is_sound(const ir::Program& program, const OpRef& op) {
  for (const ir::Slice& slice : read_slices(program, op)) {
    if (!slice_fault(program, slice).empty()) return false;
  }
  for (const ir::Slice& slice : written_slices(program, op)) {
    if (!slice_fault(program, slice).empty()) return false;
  }
  return true;
}

}  // namespace plan::verify
