#include <charconv>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "libplan/base/error.h"
#include "libplan/base/json_tree.h"
#include "libplan/schedule/canonical.h"
#include "libplan/schedule/json_codec.h"
#include "libplan/schedule/validate.h"

namespace plan {
namespace {

// Only the types' own ranges are checked while reading; what the numbers mean is validate()'s.
constexpr std::int64_t kMax64 = std::numeric_limits<std::int64_t>::max();
constexpr std::int32_t kMax32 = std::numeric_limits<std::int32_t>::max();

std::int64_t number(const JsonCursor& object, std::string_view key) {
  return object.at(key).as_int64(0, kMax64);
}

std::int32_t number32(const JsonCursor& object, std::string_view key) {
  return object.at(key).as_int32(0, kMax32);
}

std::int32_t number32_or(const JsonCursor& object, std::string_view key, std::int32_t absent) {
  const auto cursor = object.find(key);
  return cursor ? cursor->as_int32(0, kMax32) : absent;
}

void expect_id(const JsonCursor& object, std::size_t index) {
  const JsonCursor id = object.at("id");
  if (id.as_int64(0, kMax64) == static_cast<std::int64_t>(index)) return;
  id.fail("expected " + std::to_string(index) + " (ids count the list), found " +
          describe(id.node()));
}

Dtype read_dtype(const JsonCursor& cursor) {
  const std::string& name = cursor.as_string();
  const std::optional<Dtype> dtype = dtype_from_name(name);
  // One spelling per dtype, so that equal plans have equal bytes.
  if (!dtype || name_of(*dtype) != name) {
    cursor.fail("expected a dtype such as \"bf16\" or \"fp32\", found " + describe(cursor.node()));
  }
  return *dtype;
}

Dims read_dims(const JsonCursor& cursor) {
  Dims dims;
  for (const JsonCursor& element : cursor.elements()) {
    if (dims.count == kMaxDims) {
      cursor.fail("expected at most " + std::to_string(kMaxDims) + " dimensions, found more");
    }
    dims.push_back(element.as_int64(0, kMax64));
  }
  return dims;
}

Box read_box(const JsonCursor& cursor) {
  Box box;
  for (const JsonCursor& element : cursor.elements()) {
    if (box.count == kMaxDims) {
      cursor.fail("expected at most " + std::to_string(kMaxDims) + " intervals, found more");
    }
    const std::vector<JsonCursor> ends = element.elements();
    if (ends.size() != 2) {
      element.fail("expected an interval [begin, end], found " + std::to_string(ends.size()) +
                   " numbers");
    }
    box[box.count++] = {ends[0].as_int64(0, kMax64), ends[1].as_int64(0, kMax64)};
  }
  return box;
}

ir::Piece read_piece(const JsonCursor& cursor) {
  cursor.expect_object({"tensor", "box", "offset_elems", "strides_elems"});
  ir::Piece piece;
  piece.tensor = TensorId(number32(cursor, "tensor"));
  piece.box = read_box(cursor.at("box"));
  piece.offset_elems = number(cursor, "offset_elems");
  piece.strides_elems = read_dims(cursor.at("strides_elems"));
  return piece;
}

std::uint64_t read_pattern(const JsonCursor& cursor) {
  const std::string& text = cursor.as_string();
  std::uint64_t pattern = 0;
  const char* end = text.data() + text.size();
  const bool prefixed = text.starts_with("0x") && text.size() > 2;
  if (prefixed) {
    const auto result = std::from_chars(text.data() + 2, end, pattern, 16);
    if (result.ec == std::errc() && result.ptr == end) return pattern;
  }
  cursor.fail("expected a pattern such as \"0x3f80\" of at most 16 digits, found " +
              describe(cursor.node()));
}

// Reads one program straight into canonical arrangement: entries are appended in the order of the
// walk that canonical.h names, in whatever order the keys stand.
class ProgramReader {
 public:
  explicit ProgramReader(ir::Program& program) : program_(program), builder_(program) {}

  void read(const JsonCursor& cursor) {
    cursor.expect_object({"rank", "storages", "windows"});
    program_.rank = RankId(number32(cursor, "rank"));
    for (const JsonCursor& storage : cursor.at("storages").elements()) read_storage(storage);
    for (const JsonCursor& window : cursor.at("windows").elements()) {
      program_.windows.push_back(read_window(window));
    }
  }

 private:
  void read_storage(const JsonCursor& cursor) {
    cursor.expect_object({"id", "role", "memory", "dtype", "size_bytes", "alignment_bytes",
                          "binding_key", "state", "alias_of", "pieces", "same_pieces_as"});
    expect_id(cursor, program_.storages.size());
    ir::Storage storage;
    const JsonCursor role = cursor.at("role");
    const auto known_role = ir::role_from_name(role.as_string());
    if (!known_role) {
      role.fail("expected \"source\", \"target\", \"scratch\" or \"opaque\", found " +
                describe(role.node()));
    }
    storage.role = *known_role;
    const JsonCursor memory = cursor.at("memory");
    const auto known_memory = ir::memory_from_name(memory.as_string());
    if (!known_memory) {
      memory.fail("expected \"device\", \"host\" or \"file\", found " + describe(memory.node()));
    }
    storage.memory = *known_memory;
    storage.dtype = read_dtype(cursor.at("dtype"));
    storage.size_bytes = number(cursor, "size_bytes");
    storage.alignment = number(cursor, "alignment_bytes");
    if (const auto key = cursor.find("binding_key")) storage.binding_key = key->as_string();
    storage.state = StateId(number32_or(cursor, "state", -1));
    storage.alias_of = StorageId(number32_or(cursor, "alias_of", -1));
    storage.pieces = read_pieces(cursor);
    program_.storages.push_back(std::move(storage));
  }

  ir::Range read_pieces(const JsonCursor& storage) {
    const auto list = storage.find("pieces");
    const auto same = storage.find("same_pieces_as");
    if (list && same) storage.fail("expected pieces or same_pieces_as, found both");
    if (same) {
      const auto earlier = static_cast<std::size_t>(same->as_int32(0, kMax32));
      if (earlier >= program_.storages.size()) {
        same->fail("expected the id of an earlier storage, found " + describe(same->node()));
      }
      return program_.storages[earlier].pieces;
    }
    if (!list) return {};
    std::vector<ir::Piece> pieces;
    for (const JsonCursor& piece : list->elements()) pieces.push_back(read_piece(piece));
    return builder_.add_pieces(pieces);
  }

  ir::Window read_window(const JsonCursor& cursor) {
    cursor.expect_object(
        {"number", "depends_on", "allocate", "before", "sends", "receives", "after", "free"});
    ir::Window window;
    window.number = number32(cursor, "number");
    window.depends_on =
        append_each(cursor, "depends_on", program_.window_numbers,
                    [](const JsonCursor& element) { return element.as_int32(0, kMax32); });
    window.allocate = read_ids(cursor, "allocate");
    window.before = read_ops(cursor, "before");
    window.sends = append_each(cursor, "sends", program_.sends, [this](const JsonCursor& element) {
      element.expect_object({"to_rank", "message", "slices"});
      return ir::Send{RankId(number32(element, "to_rank")), number(element, "message"),
                      read_slices(element)};
    });
    window.receives =
        append_each(cursor, "receives", program_.receives, [this](const JsonCursor& element) {
          element.expect_object({"from_rank", "message", "slices"});
          return ir::Receive{RankId(number32(element, "from_rank")), number(element, "message"),
                             read_slices(element)};
        });
    window.after = read_ops(cursor, "after");
    window.free = read_ids(cursor, "free");
    return window;
  }

  ir::Range read_ids(const JsonCursor& window, std::string_view key) {
    return append_each(window, key, program_.storage_ids, [](const JsonCursor& element) {
      return StorageId(element.as_int32(0, kMax32));
    });
  }

  ir::LocalOps read_ops(const JsonCursor& window, std::string_view key) {
    ir::LocalOps ops;
    const auto cursor = window.find(key);
    if (!cursor) return ops;
    cursor->expect_object({"copies", "fills", "converts"});
    ops.copies = append_each(*cursor, "copies", program_.copies, [this](const JsonCursor& element) {
      element.expect_object({"from", "to"});
      ir::Copy copy;
      copy.from = read_slice(element.at("from"));
      copy.to = read_slice(element.at("to"));
      return copy;
    });
    ops.fills = append_each(*cursor, "fills", program_.fills, [this](const JsonCursor& element) {
      element.expect_object({"to", "pattern", "pattern_bytes"});
      ir::Fill fill;
      fill.to = read_slice(element.at("to"));
      fill.pattern = read_pattern(element.at("pattern"));
      fill.pattern_bytes = number32(element, "pattern_bytes");
      return fill;
    });
    ops.converts =
        append_each(*cursor, "converts", program_.converts, [this](const JsonCursor& element) {
          element.expect_object({"from", "to", "from_dtype", "to_dtype"});
          ir::Convert convert;
          convert.from = read_slice(element.at("from"));
          convert.to = read_slice(element.at("to"));
          convert.from_dtype = read_dtype(element.at("from_dtype"));
          convert.to_dtype = read_dtype(element.at("to_dtype"));
          return convert;
        });
    return ops;
  }

  ir::Range read_slices(const JsonCursor& message) {
    return append_each(message, "slices", program_.slices,
                       [this](const JsonCursor& element) { return read_slice(element); });
  }

  ir::Slice read_slice(const JsonCursor& cursor) {
    cursor.expect_object({"storage", "lanes", "offset_bytes", "run_bytes", "dims"});
    ir::Slice slice;
    slice.storage = StorageId(number32(cursor, "storage"));
    slice.lanes = number32_or(cursor, "lanes", 1);
    slice.offset_bytes = number(cursor, "offset_bytes");
    slice.run_bytes = number(cursor, "run_bytes");
    slice.dims = append_each(cursor, "dims", program_.slice_dims, [](const JsonCursor& element) {
      element.expect_object({"count", "stride_bytes"});
      return ir::SliceDim{number(element, "count"), number(element, "stride_bytes")};
    });
    return slice;
  }

  // Appends what `read` makes of each element of the list at `key`; nothing if there is no list.
  template <class T, class Read>
  static ir::Range append_each(const JsonCursor& object, std::string_view key,
                               std::vector<T>& array, Read read) {
    const std::size_t first = array.size();
    const auto list = object.find(key);
    if (!list) return {};
    for (const JsonCursor& element : list->elements()) array.push_back(read(element));
    return ProgramBuilder::since(array, first);
  }

  ir::Program& program_;
  ProgramBuilder builder_;
};

void check_version(const JsonCursor& root) {
  const JsonCursor format = root.at("format");
  if (format.as_string() != ir::kFormat) {
    format.fail("expected the format " + json_quote(ir::kFormat) + ", found " +
                describe(format.node()));
  }
  const JsonCursor version = root.at("version");
  if (!version.is(JsonKind::Integer) || version.node().integer != ir::kVersion) {
    version.fail("expected version " + std::to_string(ir::kVersion) + ", found " +
                 describe(version.node()));
  }
}

void read_lists(const JsonCursor& root, ir::Schedule& schedule) {
  for (const JsonCursor& cursor : root.at("ranks").elements()) {
    cursor.expect_object(
        {"rank", "worker", "node", "is_source", "is_target", "rollback_until_window"});
    schedule.ranks.push_back({RankId(number32(cursor, "rank")),
                              DeviceId(number32(cursor, "worker")),
                              NodeId(number32(cursor, "node")), cursor.at("is_source").as_bool(),
                              cursor.at("is_target").as_bool(),
                              cursor.at("rollback_until_window").as_int32(-1, kMax32)});
  }
  for (const JsonCursor& cursor : root.at("states").elements()) {
    cursor.expect_object({"id", "name"});
    expect_id(cursor, schedule.states.size());
    schedule.states.push_back(cursor.at("name").as_string());
  }
  for (const JsonCursor& cursor : root.at("tensors").elements()) {
    cursor.expect_object({"id", "name", "shape", "padding"});
    expect_id(cursor, schedule.tensors.size());
    const auto padding = cursor.find("padding");
    schedule.tensors.push_back({cursor.at("name").as_string(), read_dims(cursor.at("shape")),
                                padding ? padding->as_bool() : false});
  }
}

void read_head(const JsonCursor& root, ir::Schedule& schedule) {
  root.expect_object({"format", "version", "digest", "algorithm", "window_ops", "num_windows",
                      "digests", "request", "ranks", "states", "tensors", "programs"});
  schedule.algorithm = root.at("algorithm").as_string();
  schedule.window_ops = number32(root, "window_ops");
  schedule.num_windows = number32(root, "num_windows");
  const JsonCursor digests = root.at("digests");
  digests.expect_object({"model", "source_layout", "target_layout", "topology"});
  schedule.digests.model = digests.at("model").as_string();
  schedule.digests.source_layout = digests.at("source_layout").as_string();
  schedule.digests.target_layout = digests.at("target_layout").as_string();
  schedule.digests.topology = digests.at("topology").as_string();
  if (const auto request = root.find("request")) {
    if (!request->is(JsonKind::Object)) {
      request->fail("expected an object, found " + describe(request->node()));
    }
    schedule.request = to_compact_json(request->node());
  }
  read_lists(root, schedule);
  root.at("programs").elements();  // a list; its elements have been streamed
}

void check_digest(const JsonCursor& root, const ir::Schedule& schedule) {
  const JsonCursor written = root.at("digest");
  const std::string found = digest(schedule);
  if (written.as_string() == found) return;
  written.fail("plan digest: expected " + json_quote(written.as_string().substr(0, 80)) +
               ", found \"" + found + "\": the plan was edited or damaged");
}

}  // namespace

ir::Schedule read_json(std::string_view text, const std::string& source_name) {
  ir::Schedule schedule;
  // A fault inside a program is kept until the whole text is known to be JSON of this version.
  std::optional<Error> program_fault;
  const JsonStream stream{"/programs", [&](const JsonCursor& cursor) {
                            if (program_fault) return;
                            try {
                              ir::Program program;
                              ProgramReader(program).read(cursor);
                              schedule.programs.push_back(std::move(program));
                            } catch (const Error& error) {
                              program_fault = error;
                            }
                          }};
  const JsonDocument document = parse_json(text, source_name, JsonLimits{}, stream);
  const JsonCursor root = JsonCursor::root(document);
  check_version(root);
  read_head(root, schedule);
  if (program_fault) throw *program_fault;
  try {
    validate(schedule);
  } catch (const Error& error) {
    throw Error(error.code(), error.message(), source_name + ": " + error.place());
  }
  check_digest(root, schedule);
  return schedule;
}

}  // namespace plan
