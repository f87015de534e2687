// One view of all kinds of ops of a Program whose structure is sound, and the arithmetic of slices.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "libplan/schedule/ir.h"
#include "libplan/verify/verify.h"

namespace plan::verify {

// The phases of a window, in order. Ops of one phase have no order among themselves.
enum class Phase : std::uint8_t { Before, Exchange, After };
inline constexpr std::array kPhases = {Phase::Before, Phase::Exchange, Phase::After};

enum class OpKind : std::uint8_t { Copy, Fill, Convert, Send, Receive };

struct OpRef {
  std::int32_t window = 0;  // position in Program::windows
  Phase phase = Phase::Before;
  OpKind kind = OpKind::Copy;
  std::int32_t index = 0;  // in the Program's array of that kind

  // Phases of one rank in order.
  std::int32_t time() const { return window * 3 + static_cast<std::int32_t>(phase); }
  friend bool operator==(const OpRef&, const OpRef&) = default;
};

std::span<const ir::Slice> read_slices(const ir::Program& program, const OpRef& op);
std::span<const ir::Slice> written_slices(const ir::Program& program, const OpRef& op);

// "receive 3 from rank 2, slice 1"; slice < 0: the op alone.
std::string describe(const ir::Program& program, const OpRef& op, int slice = -1);

// A Diagnostic that names the op.
Diagnostic finding_at(const ir::Program& program, const OpRef& op, int slice, std::string rule,
                      std::string message);

// Bytes of one lane, and of all lanes.
std::int64_t lane_bytes(const ir::Program& program, const ir::Slice& slice);
std::int64_t total_bytes(const ir::Program& program, std::span<const ir::Slice> slices);

// The rule that the slice breaks on its storages (V401, V402, V404), or empty.
std::string_view slice_fault(const ir::Program& program, const ir::Slice& slice);

// No slice of the op is at fault; other ops are left out of the symbolic run.
bool is_sound(const ir::Program& program, const OpRef& op);

const ir::Storage& storage_of(const ir::Program& program, StorageId id);

// Calls visit(OpRef) for the ops of one phase.
template <class Visit>
void for_each_op(const ir::Program& program, std::int32_t window, Phase phase, Visit visit) {
  const ir::Window& at = program.windows[static_cast<std::size_t>(window)];
  const auto each = [&](OpKind kind, ir::Range range) {
    for (std::int32_t i = 0; i < range.count; ++i) {
      visit(OpRef{window, phase, kind, range.first + i});
    }
  };
  if (phase == Phase::Exchange) {
    each(OpKind::Send, at.sends);
    each(OpKind::Receive, at.receives);
    return;
  }
  const ir::LocalOps& ops = phase == Phase::Before ? at.before : at.after;
  each(OpKind::Copy, ops.copies);
  each(OpKind::Fill, ops.fills);
  each(OpKind::Convert, ops.converts);
}

// Calls visit(OpRef) for all ops of a program, in order of their phases.
template <class Visit>
void for_each_op(const ir::Program& program, Visit visit) {
  for (std::size_t window = 0; window < program.windows.size(); ++window) {
    for (const Phase phase : kPhases) {
      for_each_op(program, static_cast<std::int32_t>(window), phase, visit);
    }
  }
}

}  // namespace plan::verify
