#include "libplan/schedule/text.h"

#include <utility>
#include <vector>

#include "libplan/base/box.h"
#include "libplan/base/error.h"
#include "libplan/base/json_tree.h"
#include "libplan/schedule/canonical.h"

namespace plan {
namespace {

using ir::view;
using std::to_string;

// Keeps the first lines and counts the rest.
class Lines {
 public:
  explicit Lines(std::int64_t max_lines) : max_lines_(max_lines) {}

  bool full() const { return max_lines_ > 0 && count_ >= max_lines_; }
  void skip() { ++count_; }
  void add(const std::string& line) {
    if (!full()) text_ += line + "\n";
    ++count_;
  }
  std::string take() {
    if (max_lines_ > 0 && count_ > max_lines_) {
      text_ += "... " + to_string(count_ - max_lines_) + " more lines\n";
    }
    return std::move(text_);
  }

 private:
  std::int64_t max_lines_;
  std::int64_t count_ = 0;
  std::string text_;
};

class ProgramText {
 public:
  ProgramText(const ir::Schedule& schedule, const ir::Program& program, Lines& lines)
      : schedule_(schedule), program_(program), lines_(lines) {}

  void write() {
    lines_.add("program of rank " + to_string(program_.rank.value));
    for (std::size_t i = 0; i < program_.storages.size(); ++i) write_storage(i);
    for (const ir::Window& window : program_.windows) write(window);
  }

 private:
  // Makes the line only where it will be seen: plans have millions of them.
  template <class MakeLine>
  void line(MakeLine make) {
    if (lines_.full()) {
      lines_.skip();
    } else {
      lines_.add(make());
    }
  }

  void write_storage(std::size_t index) {
    const ir::Storage& storage = program_.storages[index];
    line([&] {
      std::string text = "  storage " + to_string(index) + ": ";
      text += name_of(storage.role);
      text += ", ";
      text += ir::memory_name(storage.memory);
      text += ", ";
      text += name_of(storage.dtype);
      text += ", " + to_string(storage.size_bytes) + " bytes, alignment " +
              to_string(storage.alignment);
      if (!storage.binding_key.empty()) text += ", " + json_quote(storage.binding_key);
      if (storage.state.valid()) {
        text += ", state " + schedule_.states[static_cast<std::size_t>(storage.state.value)];
      }
      if (storage.alias_of.valid()) text += ", alias of " + to_string(storage.alias_of.value);
      return text;
    });
    for (const ir::Piece& piece : view(program_.pieces, storage.pieces)) {
      line([&] {
        const auto tensor = static_cast<std::size_t>(piece.tensor.value);
        return "    piece " + schedule_.tensors[tensor].name + " " + to_string(piece.box) +
               " at element " + to_string(piece.offset_elems) + ", strides " +
               to_string(piece.strides_elems);
      });
    }
  }

  void write(const ir::Window& window) {
    line([&] {
      std::string text = "  window " + to_string(window.number);
      std::string_view separator = " after ";
      for (const std::int32_t number : view(program_.window_numbers, window.depends_on)) {
        text += separator;
        text += to_string(number);
        separator = ", ";
      }
      return text;
    });
    write_ids("allocate", window.allocate);
    write("before", window.before);
    for (const ir::Send& send : view(program_.sends, window.sends)) {
      line([&] {
        return "    send to " + to_string(send.to_rank.value) +
               message_text(send.message, send.slices, num_bytes(program_, send));
      });
    }
    for (const ir::Receive& receive : view(program_.receives, window.receives)) {
      line([&] {
        return "    receive from " + to_string(receive.from_rank.value) +
               message_text(receive.message, receive.slices, num_bytes(program_, receive));
      });
    }
    write("after", window.after);
    write_ids("free", window.free);
  }

  void write_ids(const char* word, ir::Range ids) {
    if (ids.count == 0) return;
    line([&] {
      std::string text = std::string("    ") + word;
      std::string_view separator = " ";
      for (const StorageId id : view(program_.storage_ids, ids)) {
        text += separator;
        text += to_string(id.value);
        separator = ", ";
      }
      return text;
    });
  }

  void write(const std::string& phase, const ir::LocalOps& ops) {
    for (const ir::Copy& copy : view(program_.copies, ops.copies)) {
      line([&] {
        return "    " + phase + " copy " + slice_text(copy.from) + " -> " + slice_text(copy.to);
      });
    }
    for (const ir::Fill& fill : view(program_.fills, ops.fills)) {
      line([&] {
        return "    " + phase + " fill " + slice_text(fill.to) + " with " +
               to_string(fill.pattern) + " as " + to_string(fill.pattern_bytes) +
               (fill.pattern_bytes == 1 ? " byte" : " bytes");
      });
    }
    for (const ir::Convert& convert : view(program_.converts, ops.converts)) {
      line([&] {
        return "    " + phase + " convert " + std::string(name_of(convert.from_dtype)) + " " +
               slice_text(convert.from) + " -> " + std::string(name_of(convert.to_dtype)) + " " +
               slice_text(convert.to);
      });
    }
  }

  std::string message_text(std::int64_t message, ir::Range slices, std::int64_t bytes) const {
    std::string text = " message " + to_string(message) + ", " + to_string(bytes) + " bytes";
    std::string_view separator = ": ";
    for (const ir::Slice& slice : view(program_.slices, slices)) {
      text += separator;
      text += slice_text(slice);
      separator = ", ";
    }
    return text;
  }

  std::string slice_text(const ir::Slice& slice) const {
    std::string text = to_string(slice.storage.value);
    if (slice.lanes > 1) {
      text += "..";
      text += to_string(slice.storage.value + slice.lanes - 1);
    }
    text += "@" + to_string(slice.offset_bytes) + "+" + to_string(slice.run_bytes);
    for (const ir::SliceDim& dim : view(program_.slice_dims, slice.dims)) {
      text += " " + to_string(dim.count) + "x/" + to_string(dim.stride_bytes);
    }
    return text;
  }

  const ir::Schedule& schedule_;
  const ir::Program& program_;
  Lines& lines_;
};

std::string role_text(const ir::RankEntry& entry) {
  if (entry.is_source && entry.is_target) return "source and target";
  if (entry.is_source) return "source";
  return entry.is_target ? "target" : "relay";
}

void write_head(const ir::Schedule& schedule, const TextOptions& options, Lines& lines) {
  lines.add("schedule version " + to_string(ir::kVersion) + ", algorithm " +
            json_quote(schedule.algorithm) + ", digest " + digest(schedule));
  lines.add(to_string(schedule.num_windows) + " windows of at most " +
            to_string(schedule.window_ops) + " messages, " + to_string(schedule.ranks.size()) +
            " ranks, " + to_string(schedule.tensors.size()) + " tensors, programs of " +
            to_string(schedule.programs.size()) + " ranks");
  for (const ir::RankEntry& entry : schedule.ranks) {
    if (options.rank && entry.rank != *options.rank) continue;
    lines.add(
        "rank " + to_string(entry.rank.value) + ": worker " + to_string(entry.worker.value) +
        ", node " + to_string(entry.node.value) + ", " + role_text(entry) + ", rollback until " +
        (entry.rollback_until_window < 0 ? std::string("commit")
                                         : "window " + to_string(entry.rollback_until_window)));
  }
  for (std::size_t i = 0; i < schedule.tensors.size(); ++i) {
    const ir::TensorEntry& tensor = schedule.tensors[i];
    lines.add("tensor " + to_string(i) + ": " + tensor.name + " " + to_string(tensor.shape) +
              (tensor.padding ? ", padding" : ""));
  }
}

}  // namespace

std::string to_text(const ir::Schedule& schedule, const TextOptions& options) {
  if (options.rank && ir::find_program(schedule, *options.rank) == nullptr) {
    throw Error(ErrorCode::BadInput, "expected a rank whose program the plan holds, found rank " +
                                         to_string(options.rank->value));
  }
  Lines lines(options.max_lines);
  write_head(schedule, options, lines);
  for (const ir::Program& program : schedule.programs) {
    if (options.rank && program.rank != *options.rank) continue;
    ProgramText(schedule, program, lines).write();
  }
  return lines.take();
}

}  // namespace plan
