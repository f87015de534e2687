#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "libplan/base/digest.h"
#include "libplan/base/error.h"
#include "libplan/schedule/canonical.h"
#include "libplan/schedule/flatbuffers_codec.h"
#include "libplan/schedule/flatbuffers_file.h"
#include "libplan/schedule/request.h"
#include "libplan/schedule/validate.h"
#include "schemas/schedule_generated.h"

namespace plan {
namespace {

// A FlatBuffer at an address that its 8-byte numbers can be read from, verified as a whole.
template <class Root>
class VerifiedBuffer {
 public:
  VerifiedBuffer(std::string_view bytes, const std::string& place) : place_(place) {
    if (static_cast<std::int64_t>(bytes.size()) >= std::numeric_limits<std::int32_t>::max()) {
      throw Error(ErrorCode::Unreadable, "expected less than 2^31 bytes, found more", place);
    }
    data_ = reinterpret_cast<const std::uint8_t*>(bytes.data());
    if (reinterpret_cast<std::uintptr_t>(data_) % alignof(std::uint64_t) != 0) {
      copy_.resize(bytes.size() / sizeof(std::uint64_t) + 1);
      std::memcpy(copy_.data(), bytes.data(), bytes.size());
      data_ = reinterpret_cast<const std::uint8_t*>(copy_.data());
    }
    flatbuffers::Verifier verifier(data_, bytes.size());
    if (!verifier.VerifyBuffer<Root>(nullptr)) {
      throw Error(ErrorCode::Unreadable, "expected a FlatBuffer of schedule.fbs, found other bytes",
                  place);
    }
    string_bytes_left_ = bytes.size();
  }

  const Root& root() const { return *flatbuffers::GetRoot<Root>(data_); }

  // Copies a vector of structs or numbers.
  template <class Wire, class Decode>
  auto list(const flatbuffers::Vector<Wire>& vector, Decode decode) const {
    using Entry = std::remove_const_t<std::remove_pointer_t<Wire>>;
    // The verifier checks the alignment of a vector's length, not that of its entries.
    if (vector.size() > 0 &&
        reinterpret_cast<std::uintptr_t>(vector.Data()) % alignof(Entry) != 0) {
      throw Error(ErrorCode::Unreadable, "expected aligned entries, found others", place_);
    }
    std::vector<decltype(decode(vector.Get(0)))> entries;
    entries.reserve(vector.size());
    for (flatbuffers::uoffset_t i = 0; i < vector.size(); ++i) {
      entries.push_back(decode(vector.Get(i)));
    }
    return entries;
  }

  // Strings may lie over each other in the buffer; what is copied out of it stays below its size.
  std::string string(const flatbuffers::String& text) {
    if (text.size() > string_bytes_left_) {
      throw Error(ErrorCode::BadInput, "expected strings that lie apart, found shared ones",
                  place_);
    }
    string_bytes_left_ -= text.size();
    return text.str();
  }

  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorCode::BadInput, message, place_);
  }

 private:
  std::string place_;
  const std::uint8_t* data_ = nullptr;
  std::vector<std::uint64_t> copy_;
  std::size_t string_bytes_left_ = 0;
};

ir::Range decode(const wire::Range& range) { return {range.first(), range.count()}; }

ir::Slice decode(const wire::Slice& slice) {
  return {StorageId(slice.storage()), slice.lanes(), slice.offset_bytes(), slice.run_bytes(),
          decode(slice.dims())};
}

ir::SliceDim decode(const wire::SliceDim& dim) { return {dim.count(), dim.stride_bytes()}; }

ir::Copy decode(const wire::Copy& copy) { return {decode(copy.from()), decode(copy.to())}; }

ir::Fill decode(const wire::Fill& fill) {
  return {decode(fill.to()), fill.pattern(), fill.pattern_bytes()};
}

ir::Convert decode(const wire::Convert& convert) {
  return {decode(convert.from()), decode(convert.to()), static_cast<Dtype>(convert.from_dtype()),
          static_cast<Dtype>(convert.to_dtype())};
}

ir::Send decode(const wire::Send& send) {
  return {RankId(send.to_rank()), send.message(), decode(send.slices())};
}

ir::Receive decode(const wire::Receive& receive) {
  return {RankId(receive.from_rank()), receive.message(), decode(receive.slices())};
}

ir::LocalOps decode(const wire::LocalOps& ops) {
  return {decode(ops.copies()), decode(ops.fills()), decode(ops.converts())};
}

ir::Window decode(const wire::Window& window) {
  return {window.number(),         decode(window.depends_on()), decode(window.allocate()),
          decode(window.before()), decode(window.sends()),      decode(window.receives()),
          decode(window.after()),  decode(window.free())};
}

ir::Storage decode(const wire::Storage& storage) {
  ir::Storage decoded;
  decoded.role = static_cast<ir::StorageRole>(storage.role());
  decoded.memory = static_cast<MemoryKind>(storage.memory());
  decoded.dtype = static_cast<Dtype>(storage.dtype());
  decoded.size_bytes = storage.size_bytes();
  decoded.alignment = storage.alignment_bytes();
  decoded.state = StateId(storage.state());
  decoded.alias_of = StorageId(storage.alias_of());
  decoded.pieces = decode(storage.pieces());
  return decoded;
}

ir::RankEntry decode(const wire::RankEntry& entry) {
  return {RankId(entry.rank()), DeviceId(entry.worker()), NodeId(entry.node()),
          entry.is_source(),    entry.is_target(),        entry.rollback_until_window()};
}

constexpr auto kDecodeStruct = [](const auto* entry) { return decode(*entry); };

// Entries of a vector of `size`, at most kMaxDims of them: the axes of a piece or shape.
template <class Buffer>
void check_axes(const Buffer& buffer, ir::Range range, std::size_t size, const char* what) {
  if (range.first >= 0 && range.count >= 0 && range.count <= kMaxDims &&
      std::int64_t{range.first} + range.count <= static_cast<std::int64_t>(size)) {
    return;
  }
  buffer.fail(std::string(what) + ": expected at most " + std::to_string(kMaxDims) +
              " axes inside the list of " + std::to_string(size) + ", found first " +
              std::to_string(range.first) + ", count " + std::to_string(range.count));
}

using ProgramBuffer = VerifiedBuffer<wire::Program>;

std::vector<ir::Piece> decode_pieces(const ProgramBuffer& buffer) {
  struct Axis {
    Interval interval;
    std::int64_t stride_elems;
  };
  const auto axes = buffer.list(*buffer.root().piece_dims(), [](const wire::PieceDim* dim) {
    return Axis{{dim->begin(), dim->end()}, dim->stride_elems()};
  });
  return buffer.list(*buffer.root().pieces(), [&](const wire::Piece* wire_piece) {
    const ir::Range range = decode(wire_piece->dims());
    check_axes(buffer, range, axes.size(), "piece");
    ir::Piece piece;
    piece.tensor = TensorId(wire_piece->tensor());
    piece.offset_elems = wire_piece->offset_elems();
    for (const Axis& axis : ir::view(axes, range)) {
      piece.box[piece.box.count++] = axis.interval;
      piece.strides_elems.push_back(axis.stride_elems);
    }
    return piece;
  });
}

ir::Program decode_program(std::string_view bytes, const std::string& place) {
  ProgramBuffer buffer(bytes, place);
  const wire::Program& root = buffer.root();
  ir::Program program;
  program.rank = RankId(root.rank());
  program.storages = buffer.list(*root.storages(), kDecodeStruct);
  const auto& keys = *root.binding_keys();
  if (keys.size() != program.storages.size()) {
    buffer.fail("expected a binding key for each of the " +
                std::to_string(program.storages.size()) + " storages, found " +
                std::to_string(keys.size()));
  }
  for (flatbuffers::uoffset_t i = 0; i < keys.size(); ++i) {
    program.storages[i].binding_key = buffer.string(*keys.Get(i));
  }
  program.pieces = decode_pieces(buffer);
  program.windows = buffer.list(*root.windows(), kDecodeStruct);
  program.window_numbers =
      buffer.list(*root.window_numbers(), [](std::int32_t number) { return number; });
  program.storage_ids =
      buffer.list(*root.storage_ids(), [](std::int32_t id) { return StorageId(id); });
  program.copies = buffer.list(*root.copies(), kDecodeStruct);
  program.fills = buffer.list(*root.fills(), kDecodeStruct);
  program.converts = buffer.list(*root.converts(), kDecodeStruct);
  program.sends = buffer.list(*root.sends(), kDecodeStruct);
  program.receives = buffer.list(*root.receives(), kDecodeStruct);
  program.slices = buffer.list(*root.slices(), kDecodeStruct);
  program.slice_dims = buffer.list(*root.slice_dims(), kDecodeStruct);
  return program;
}

struct ProgramPlace {
  RankId rank;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  Sha256Digest bytes_digest{};
  Sha256Digest content_digest{};
};

struct DecodedIndex {
  ir::Schedule head;  // without programs
  std::string plan_digest;
  std::vector<ProgramPlace> programs;
};

Sha256Digest decode(const flatbuffers::Array<std::uint8_t, 32>& bytes) {
  Sha256Digest digest{};
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

void decode_tensors(const VerifiedBuffer<wire::Index>& buffer, std::vector<std::string> names,
                    ir::Schedule& head) {
  const wire::Index& root = buffer.root();
  const auto dims = buffer.list(*root.tensor_dims(), [](std::int64_t extent) { return extent; });
  head.tensors = buffer.list(*root.tensors(), [&](const wire::Tensor* tensor) {
    const ir::Range range = decode(tensor->shape());
    check_axes(buffer, range, dims.size(), "tensor shape");
    ir::TensorEntry entry;
    for (const std::int64_t extent : ir::view(dims, range)) entry.shape.push_back(extent);
    entry.padding = tensor->padding();
    return entry;
  });
  if (names.size() != head.tensors.size()) {
    buffer.fail("expected a name for each of the " + std::to_string(head.tensors.size()) +
                " tensors, found " + std::to_string(names.size()));
  }
  for (std::size_t i = 0; i < names.size(); ++i) head.tensors[i].name = std::move(names[i]);
}

DecodedIndex decode_index(std::string_view bytes, const std::string& place) {
  VerifiedBuffer<wire::Index> buffer(bytes, place);
  const wire::Index& root = buffer.root();
  const auto strings = [&](const auto& vector) {
    std::vector<std::string> list;
    for (const flatbuffers::String* text : vector) list.push_back(buffer.string(*text));
    return list;
  };
  DecodedIndex index;
  ir::Schedule& head = index.head;
  head.request = buffer.string(*root.request());
  head.digests.model = buffer.string(*root.model_digest());
  head.digests.source_layout = buffer.string(*root.source_layout_digest());
  head.digests.target_layout = buffer.string(*root.target_layout_digest());
  head.digests.topology = buffer.string(*root.topology_digest());
  head.algorithm = buffer.string(*root.algorithm());
  head.window_ops = root.window_ops();
  head.num_windows = root.num_windows();
  head.ranks = buffer.list(*root.ranks(), kDecodeStruct);
  decode_tensors(buffer, strings(*root.tensor_names()), head);
  head.states = strings(*root.states());
  index.plan_digest = buffer.string(*root.plan_digest());
  index.programs = buffer.list(*root.programs(), [](const wire::ProgramEntry* entry) {
    return ProgramPlace{RankId(entry->rank()), entry->offset(), entry->length(),
                        decode(*entry->sha256()), decode(*entry->content_digest())};
  });
  return index;
}

std::uint64_t little_endian(std::string_view bytes, std::size_t offset, int width) {
  std::uint64_t value = 0;
  for (int i = width; i-- > 0;) {
    value = value << 8U | static_cast<unsigned char>(bytes[offset + static_cast<std::size_t>(i)]);
  }
  return value;
}

void check_hash(const std::string& what, std::string_view bytes, const std::string& expected,
                const std::string& place) {
  const std::string found = sha256_hex(bytes);
  if (found == expected) return;
  throw Error(ErrorCode::BadInput,
              what + " digest: expected " + expected + ", found " + found +
                  ": the plan was edited or damaged",
              place);
}

// The file's parts, found and hashed but not decoded.
class PlanFile {
 public:
  PlanFile(std::string_view bytes, const std::string& source_name)
      : bytes_(bytes), source_name_(source_name) {
    check_header();
    const std::uint64_t index_bytes = little_endian(bytes, 24, 8);
    if (index_bytes > bytes.size() - wire::kHeaderBytes) {
      throw Error(ErrorCode::Unreadable,
                  "expected an index inside the file, found one of " + std::to_string(index_bytes) +
                      " bytes",
                  source_name);
    }
    const std::string_view index = bytes.substr(wire::kHeaderBytes, index_bytes);
    Sha256Digest digest{};
    std::memcpy(digest.data(), bytes.data() + 32, digest.size());
    check_hash("plan index", index, to_hex(digest), source_name);
    index_ = decode_index(index, source_name + ", plan index");
    check_places(wire::kHeaderBytes + index_bytes);
  }

  DecodedIndex& index() { return index_; }

  ir::Program program(const ProgramPlace& place) const {
    const std::string name = source_name_ + ", rank " + std::to_string(place.rank.value);
    const std::string_view bytes = bytes_.substr(place.offset, place.length);
    check_hash("program", bytes, to_hex(place.bytes_digest), name);
    ir::Program program = decode_program(bytes, name);
    if (program.rank != place.rank) {
      throw Error(ErrorCode::BadInput,
                  "expected the program of this rank, found that of rank " +
                      std::to_string(program.rank.value),
                  name);
    }
    return program;
  }

 private:
  void check_header() const {
    if (!is_flatbuffers(bytes_) || bytes_.size() < wire::kHeaderBytes) {
      throw Error(
          ErrorCode::Unreadable,
          "expected a plan in binary form, found " + std::to_string(bytes_.size()) + " other bytes",
          source_name_);
    }
    const std::uint64_t version = little_endian(bytes_, 8, 4);
    if (version != static_cast<std::uint64_t>(ir::kVersion)) {
      throw Error(
          ErrorCode::BadInput,
          "expected version " + std::to_string(ir::kVersion) + ", found " + std::to_string(version),
          source_name_);
    }
    if (little_endian(bytes_, 12, 4) != 0) {
      throw Error(ErrorCode::BadInput, "expected zeros behind the version, found others",
                  source_name_);
    }
    const std::uint64_t file_bytes = little_endian(bytes_, 16, 8);
    if (file_bytes != bytes_.size()) {
      throw Error(ErrorCode::Unreadable,
                  "expected " + std::to_string(file_bytes) + " bytes, found " +
                      std::to_string(bytes_.size()) +
                      (bytes_.size() < file_bytes ? ": the plan is truncated" : ""),
                  source_name_);
    }
  }

  // Programs follow each other without gaps, so that none can be used twice and no byte is unread.
  void check_places(std::uint64_t end) const {
    for (const ProgramPlace& place : index_.programs) {
      const std::uint64_t start = check_padding(end);
      if (place.offset != start || place.length > bytes_.size() - start) {
        throw Error(ErrorCode::BadInput,
                    "expected the program at byte " + std::to_string(start) + " of " +
                        std::to_string(bytes_.size()) + ", found offset " +
                        std::to_string(place.offset) + ", length " + std::to_string(place.length),
                    source_name_ + ", rank " + std::to_string(place.rank.value));
      }
      end = start + place.length;
    }
    if (check_padding(end) != bytes_.size()) {
      throw Error(ErrorCode::BadInput,
                  "expected the last program to end at byte " + std::to_string(bytes_.size()) +
                      ", found " + std::to_string(end),
                  source_name_);
    }
  }

  // Where the part after `end` starts; the bytes between are zeros of the file.
  std::uint64_t check_padding(std::uint64_t end) const {
    const std::uint64_t start = wire::aligned(end);
    if (start > bytes_.size() ||
        bytes_.substr(end, start - end).find_first_not_of('\0') != std::string_view::npos) {
      throw Error(ErrorCode::BadInput, "expected zeros behind byte " + std::to_string(end),
                  source_name_);
    }
    return start;
  }

  std::string_view bytes_;
  std::string source_name_;
  DecodedIndex index_;
};

// Validates, and checks arrangement and what the programs say against the digests of the index.
void finish(ir::Schedule& schedule, const DecodedIndex& index, const std::string& source_name) {
  try {
    validate(schedule);
    if (!schedule.request.empty()) parse_request(schedule.request);
  } catch (const Error& error) {
    throw Error(error.code(), error.message(), source_name + ": " + error.place());
  }
  for (const ir::Program& program : schedule.programs) {
    // Only a forged file is arranged otherwise; rearranging it could take many times its size.
    if (is_canonical(program)) continue;
    throw Error(ErrorCode::BadInput, "expected a program in canonical arrangement, found another",
                source_name + ", rank " + std::to_string(program.rank.value));
  }
  const auto differs = [&](const std::string& what, const std::string& expected,
                           const std::string& found) {
    throw Error(ErrorCode::BadInput,
                what + " digest: expected " + expected + ", found " + found +
                    ": the plan was edited or damaged",
                source_name);
  };
  std::vector<ProgramDigest> digests;
  auto program = schedule.programs.begin();
  for (const ProgramPlace& place : index.programs) {
    digests.push_back({place.rank, place.content_digest});
    if (program == schedule.programs.end() || program->rank != place.rank) continue;
    const Sha256Digest found = program_digest(*program++);
    if (found != place.content_digest) {
      differs("content", to_hex(place.content_digest), to_hex(found));
    }
  }
  const std::string found = digest_from_parts(schedule, digests);
  if (found != index.plan_digest) differs("plan", index.plan_digest, found);
}

}  // namespace

bool is_flatbuffers(std::string_view bytes) { return bytes.starts_with(wire::kMagic); }

ir::Schedule read_flatbuffers(std::string_view bytes, const std::string& source_name) {
  PlanFile file(bytes, source_name);
  ir::Schedule schedule = std::move(file.index().head);
  for (const ProgramPlace& place : file.index().programs) {
    schedule.programs.push_back(file.program(place));
  }
  finish(schedule, file.index(), source_name);
  return schedule;
}

PlanPart read_flatbuffers_part(std::string_view bytes, RankId rank,
                               const std::string& source_name) {
  PlanFile file(bytes, source_name);
  PlanPart part{std::move(file.index().head), file.index().plan_digest};
  for (const ProgramPlace& place : file.index().programs) {
    if (place.rank == rank) part.schedule.programs.push_back(file.program(place));
  }
  if (part.schedule.programs.empty()) {
    throw Error(
        ErrorCode::BadInput,
        "expected a rank whose program the plan holds, found rank " + std::to_string(rank.value),
        source_name);
  }
  finish(part.schedule, file.index(), source_name);
  return part;
}

}  // namespace plan
