#include <array>
#include <charconv>
#include <map>
#include <span>
#include <vector>

#include "libplan/base/error.h"
#include "libplan/base/json_tree.h"
#include "libplan/schedule/canonical.h"
#include "libplan/schedule/json_codec.h"
#include "libplan/schedule/request.h"
#include "libplan/schedule/validate.h"

namespace plan {
namespace {

using ir::view;

// Text with two kinds of containers: tall ones, whose members stand on lines of their own, and flat
// ones, on one line.
class JsonText {
 public:
  explicit JsonText(std::ostream& stream) : stream_(stream) { buffer_.reserve(kFlushBytes + 4096); }

  void open_tall(char bracket) { open(bracket, true); }
  void open_flat(char bracket) { open(bracket, false); }
  void close(char bracket) {
    const Container container = stack_.back();
    stack_.pop_back();
    if (container.tall && !container.empty) new_line();
    buffer_ += bracket;
    if (buffer_.size() >= kFlushBytes) flush();
  }

  // The next member of an object; its value follows.
  void key(std::string_view name) {
    separate();
    buffer_ += '"';
    buffer_ += name;
    buffer_ += "\": ";
  }
  // The next element of a list follows.
  void element() { separate(); }

  void number(std::int64_t value) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    buffer_.append(digits.data(), end);
  }
  void text(std::string_view value) { buffer_ += json_quote(value); }
  void boolean(bool value) { buffer_ += value ? "true" : "false"; }
  void raw(std::string_view json) { buffer_ += json; }

  void field(std::string_view name, std::int64_t value) {
    key(name);
    number(value);
  }
  void text_field(std::string_view name, std::string_view value) {
    key(name);
    text(value);
  }
  void bool_field(std::string_view name, bool value) {
    key(name);
    boolean(value);
  }
  template <class Numbers>
  void numbers_field(std::string_view name, const Numbers& numbers) {
    key(name);
    open_flat('[');
    for (const std::int64_t value : numbers) {
      element();
      number(value);
    }
    close(']');
  }

  void finish() {
    buffer_ += '\n';
    flush();
    stream_.flush();
    if (!stream_) throw Error(ErrorCode::Io, "the plan cannot be written");
  }

 private:
  static constexpr std::size_t kFlushBytes = 1 << 16;
  struct Container {
    bool tall;
    bool empty = true;
  };

  void open(char bracket, bool tall) {
    buffer_ += bracket;
    stack_.push_back({tall});
  }
  void separate() {
    Container& container = stack_.back();
    if (!container.empty) buffer_ += ',';
    if (container.tall) {
      new_line();
    } else if (!container.empty) {
      buffer_ += ' ';
    }
    container.empty = false;
  }
  void new_line() {
    buffer_ += '\n';
    for (const Container& container : stack_) buffer_ += container.tall ? " " : "";
  }
  void flush() {
    stream_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    buffer_.clear();
  }

  std::ostream& stream_;
  std::string buffer_;
  std::vector<Container> stack_;
};

// Flat where it fits a line of some 80 characters, tall otherwise.
void write_tree(const JsonNode& node, JsonText& out) {
  constexpr std::size_t kLineBytes = 80;
  const bool object = node.kind == JsonKind::Object;
  if (!object && node.kind != JsonKind::Array) {
    out.raw(to_compact_json(node));
    return;
  }
  const bool flat = node.elements.size() <= kLineBytes &&
                    [&] { return to_compact_json(node).size() <= kLineBytes; }();
  if (flat) {
    out.open_flat(object ? '{' : '[');
  } else {
    out.open_tall(object ? '{' : '[');
  }
  for (std::size_t i = 0; i < node.elements.size(); ++i) {
    out.element();
    if (object) out.raw(json_quote(node.keys[i]) + ": ");
    write_tree(node.elements[i], out);
  }
  out.close(object ? '}' : ']');
}

class ProgramWriter {
 public:
  ProgramWriter(const ir::Program& program, JsonText& out) : program_(program), out_(out) {}

  void write() {
    out_.open_tall('{');
    out_.field("rank", program_.rank.value);
    out_.key("storages");
    out_.open_tall('[');
    for (std::size_t i = 0; i < program_.storages.size(); ++i) write_storage(i);
    out_.close(']');
    out_.key("windows");
    out_.open_tall('[');
    for (const ir::Window& window : program_.windows) {
      out_.element();
      write(window);
    }
    out_.close(']');
    out_.close('}');
  }

 private:
  void write_storage(std::size_t index) {
    const ir::Storage& storage = program_.storages[index];
    out_.element();
    out_.open_flat('{');
    out_.field("id", static_cast<std::int64_t>(index));
    out_.text_field("role", name_of(storage.role));
    out_.text_field("memory", ir::memory_name(storage.memory));
    out_.text_field("dtype", name_of(storage.dtype));
    out_.field("size_bytes", storage.size_bytes);
    out_.field("alignment_bytes", storage.alignment);
    if (!storage.binding_key.empty()) out_.text_field("binding_key", storage.binding_key);
    if (storage.state.valid()) out_.field("state", storage.state.value);
    if (storage.alias_of.valid()) out_.field("alias_of", storage.alias_of.value);
    if (storage.pieces.count > 0) {
      // In the canonical arrangement, equal lists have equal ranges.
      const auto [known, inserted] = first_with_pieces_.emplace(storage.pieces.first, index);
      if (inserted) {
        write_entries("pieces", view(program_.pieces, storage.pieces));
      } else {
        out_.field("same_pieces_as", static_cast<std::int64_t>(known->second));
      }
    }
    out_.close('}');
  }

  void write(const ir::Piece& piece) {
    out_.open_flat('{');
    out_.field("tensor", piece.tensor.value);
    out_.key("box");
    out_.open_flat('[');
    for (int axis = 0; axis < piece.box.count; ++axis) {
      out_.element();
      out_.open_flat('[');
      out_.element();
      out_.number(piece.box[axis].begin);
      out_.element();
      out_.number(piece.box[axis].end);
      out_.close(']');
    }
    out_.close(']');
    out_.field("offset_elems", piece.offset_elems);
    out_.numbers_field("strides_elems", piece.strides_elems);
    out_.close('}');
  }

  void write(const ir::Window& window) {
    out_.open_tall('{');
    out_.field("number", window.number);
    if (window.depends_on.count > 0) {
      out_.numbers_field("depends_on", view(program_.window_numbers, window.depends_on));
    }
    write_ids("allocate", window.allocate);
    write_ops("before", window.before);
    write_entries("sends", view(program_.sends, window.sends));
    write_entries("receives", view(program_.receives, window.receives));
    write_ops("after", window.after);
    write_ids("free", window.free);
    out_.close('}');
  }

  void write_ids(std::string_view name, ir::Range range) {
    if (range.count == 0) return;
    out_.key(name);
    out_.open_flat('[');
    for (const StorageId id : view(program_.storage_ids, range)) {
      out_.element();
      out_.number(id.value);
    }
    out_.close(']');
  }

  void write_ops(std::string_view name, const ir::LocalOps& ops) {
    if (ops == ir::LocalOps{}) return;
    out_.key(name);
    out_.open_tall('{');
    write_entries("copies", view(program_.copies, ops.copies));
    write_entries("fills", view(program_.fills, ops.fills));
    write_entries("converts", view(program_.converts, ops.converts));
    out_.close('}');
  }

  template <class T>
  void write_entries(std::string_view name, std::span<const T> entries) {
    if (entries.empty()) return;
    out_.key(name);
    out_.open_tall('[');
    for (const T& entry : entries) {
      out_.element();
      write(entry);
    }
    out_.close(']');
  }

  void write(const ir::Copy& copy) {
    out_.open_flat('{');
    write_side("from", copy.from);
    write_side("to", copy.to);
    out_.close('}');
  }

  void write(const ir::Fill& fill) {
    out_.open_flat('{');
    write_side("to", fill.to);
    std::array<char, 16> digits{};
    const auto end =
        std::to_chars(digits.data(), digits.data() + digits.size(), fill.pattern, 16).ptr;
    out_.text_field("pattern", "0x" + std::string(digits.data(), end));
    out_.field("pattern_bytes", fill.pattern_bytes);
    out_.close('}');
  }

  void write(const ir::Convert& convert) {
    out_.open_flat('{');
    write_side("from", convert.from);
    write_side("to", convert.to);
    out_.text_field("from_dtype", name_of(convert.from_dtype));
    out_.text_field("to_dtype", name_of(convert.to_dtype));
    out_.close('}');
  }

  void write(const ir::Send& send) {
    out_.open_flat('{');
    out_.field("to_rank", send.to_rank.value);
    write_message(send.message, send.slices);
  }

  void write(const ir::Receive& receive) {
    out_.open_flat('{');
    out_.field("from_rank", receive.from_rank.value);
    write_message(receive.message, receive.slices);
  }

  void write_message(std::int64_t message, ir::Range slices) {
    out_.field("message", message);
    write_entries("slices", view(program_.slices, slices));
    out_.close('}');
  }

  void write_side(std::string_view side, const ir::Slice& slice) {
    out_.key(side);
    write(slice);
  }

  void write(const ir::Slice& slice) {
    out_.open_flat('{');
    out_.field("storage", slice.storage.value);
    if (slice.lanes != 1) out_.field("lanes", slice.lanes);
    out_.field("offset_bytes", slice.offset_bytes);
    out_.field("run_bytes", slice.run_bytes);
    if (slice.dims.count > 0) {
      out_.key("dims");
      out_.open_flat('[');
      for (const ir::SliceDim& dim : view(program_.slice_dims, slice.dims)) {
        out_.element();
        out_.open_flat('{');
        out_.field("count", dim.count);
        out_.field("stride_bytes", dim.stride_bytes);
        out_.close('}');
      }
      out_.close(']');
    }
    out_.close('}');
  }

  const ir::Program& program_;
  JsonText& out_;
  std::map<std::int32_t, std::size_t> first_with_pieces_;  // first of the range -> storage
};

void write_head(const ir::Schedule& schedule, JsonText& out) {
  out.text_field("format", ir::kFormat);
  out.field("version", ir::kVersion);
  out.text_field("digest", digest(schedule));
  out.text_field("algorithm", schedule.algorithm);
  out.field("window_ops", schedule.window_ops);
  out.field("num_windows", schedule.num_windows);
  out.key("digests");
  out.open_tall('{');
  out.text_field("model", schedule.digests.model);
  out.text_field("source_layout", schedule.digests.source_layout);
  out.text_field("target_layout", schedule.digests.target_layout);
  out.text_field("topology", schedule.digests.topology);
  out.close('}');
  if (!schedule.request.empty()) {
    out.key("request");
    write_tree(parse_request(schedule.request).root, out);
  }
}

void write_ranks(const ir::Schedule& schedule, JsonText& out) {
  out.key("ranks");
  out.open_tall('[');
  for (const ir::RankEntry& entry : schedule.ranks) {
    out.element();
    out.open_flat('{');
    out.field("rank", entry.rank.value);
    out.field("worker", entry.worker.value);
    out.field("node", entry.node.value);
    out.bool_field("is_source", entry.is_source);
    out.bool_field("is_target", entry.is_target);
    out.field("rollback_until_window", entry.rollback_until_window);
    out.close('}');
  }
  out.close(']');
}

void write_names(const ir::Schedule& schedule, JsonText& out) {
  out.key("states");
  out.open_tall('[');
  for (std::size_t i = 0; i < schedule.states.size(); ++i) {
    out.element();
    out.open_flat('{');
    out.field("id", static_cast<std::int64_t>(i));
    out.text_field("name", schedule.states[i]);
    out.close('}');
  }
  out.close(']');
  out.key("tensors");
  out.open_tall('[');
  for (std::size_t i = 0; i < schedule.tensors.size(); ++i) {
    const ir::TensorEntry& tensor = schedule.tensors[i];
    out.element();
    out.open_flat('{');
    out.field("id", static_cast<std::int64_t>(i));
    out.text_field("name", tensor.name);
    out.numbers_field("shape", tensor.shape);
    if (tensor.padding) out.bool_field("padding", true);
    out.close('}');
  }
  out.close(']');
}

}  // namespace

void write_json(const ir::Schedule& schedule, std::ostream& stream) {
  validate(schedule);
  JsonText out(stream);
  out.open_tall('{');
  write_head(schedule, out);
  write_ranks(schedule, out);
  write_names(schedule, out);
  out.key("programs");
  out.open_tall('[');
  for (const ir::Program& program : schedule.programs) {
    out.element();
    if (is_canonical(program)) {
      ProgramWriter(program, out).write();
    } else {
      ProgramWriter(canonical(program), out).write();
    }
  }
  out.close(']');
  out.close('}');
  out.finish();
}

}  // namespace plan
