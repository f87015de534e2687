#include <array>
#include <utility>
#include <vector>

#include "libplan/base/checked.h"
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

using Builder = flatbuffers::FlatBufferBuilder;

std::string_view bytes_of(const flatbuffers::DetachedBuffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.data()), buffer.size()};
}

wire::Range encode(ir::Range range) { return {range.first, range.count}; }

wire::Slice encode(const ir::Slice& slice) {
  return {slice.storage.value, slice.lanes, slice.offset_bytes, slice.run_bytes,
          encode(slice.dims)};
}

wire::SliceDim encode(const ir::SliceDim& dim) { return {dim.count, dim.stride_bytes}; }

wire::Copy encode(const ir::Copy& copy) { return {encode(copy.from), encode(copy.to)}; }

wire::Fill encode(const ir::Fill& fill) {
  return {encode(fill.to), fill.pattern, fill.pattern_bytes};
}

wire::Convert encode(const ir::Convert& convert) {
  return {encode(convert.from), encode(convert.to), static_cast<std::uint8_t>(convert.from_dtype),
          static_cast<std::uint8_t>(convert.to_dtype)};
}

wire::Send encode(const ir::Send& send) {
  return {send.message, encode(send.slices), send.to_rank.value};
}

wire::Receive encode(const ir::Receive& receive) {
  return {receive.message, encode(receive.slices), receive.from_rank.value};
}

wire::LocalOps encode(const ir::LocalOps& ops) {
  return {encode(ops.copies), encode(ops.fills), encode(ops.converts)};
}

wire::Window encode(const ir::Window& window) {
  return {window.number,         encode(window.depends_on), encode(window.allocate),
          encode(window.before), encode(window.sends),      encode(window.receives),
          encode(window.after),  encode(window.free)};
}

wire::Storage encode(const ir::Storage& storage) {
  return {storage.size_bytes,
          storage.alignment,
          encode(storage.pieces),
          storage.state.value,
          storage.alias_of.value,
          static_cast<std::uint8_t>(storage.role),
          static_cast<std::uint8_t>(storage.memory),
          static_cast<std::uint8_t>(storage.dtype)};
}

wire::RankEntry encode(const ir::RankEntry& entry) {
  return {entry.rank.value, entry.worker.value, entry.node.value, entry.rollback_until_window,
          entry.is_source,  entry.is_target};
}

// A vector of wire structs, each made from one entry.
template <class Entries>
auto structs(Builder& builder, const Entries& entries) {
  using Wire = decltype(encode(entries[0]));
  int no_state = 0;
  return builder.CreateVectorOfStructs<Wire>(
      entries.size(), [&](std::size_t i, Wire* slot, int*) { *slot = encode(entries[i]); },
      &no_state);
}

template <class T>
std::int64_t bytes_in(std::size_t count) {
  return checked_mul(static_cast<std::int64_t>(count), sizeof(T));
}

struct WirePieces {
  std::vector<wire::Piece> pieces;
  std::vector<wire::PieceDim> dims;
};

WirePieces encode_pieces(const ir::Program& program) {
  WirePieces wire;
  wire.pieces.reserve(program.pieces.size());
  for (const ir::Piece& piece : program.pieces) {
    const auto first = static_cast<std::int64_t>(wire.dims.size());
    const wire::Range dims(checked_int32(first), piece.box.count);
    wire.pieces.emplace_back(piece.offset_elems, piece.tensor.value, dims);
    for (int axis = 0; axis < piece.box.count; ++axis) {
      wire.dims.emplace_back(piece.box[axis].begin, piece.box[axis].end, piece.strides_elems[axis]);
    }
  }
  return wire;
}

// Close to the encoded size, from above; lets the builder allocate once.
std::int64_t estimated_bytes(const ir::Program& program, const WirePieces& pieces) {
  std::int64_t bytes = 1024;
  for (const std::int64_t part : {
           bytes_in<wire::Storage>(program.storages.size()),
           bytes_in<wire::Piece>(pieces.pieces.size()),
           bytes_in<wire::PieceDim>(pieces.dims.size()),
           bytes_in<wire::Window>(program.windows.size()),
           bytes_in<std::int32_t>(program.window_numbers.size()),
           bytes_in<std::int32_t>(program.storage_ids.size()),
           bytes_in<wire::Copy>(program.copies.size()),
           bytes_in<wire::Fill>(program.fills.size()),
           bytes_in<wire::Convert>(program.converts.size()),
           bytes_in<wire::Send>(program.sends.size()),
           bytes_in<wire::Receive>(program.receives.size()),
           bytes_in<wire::Slice>(program.slices.size()),
           bytes_in<wire::SliceDim>(program.slice_dims.size()),
       }) {
    bytes = checked_add(bytes, part);
  }
  constexpr std::int64_t kBytesAroundString = 16;  // offset, length, zero byte, alignment
  for (const ir::Storage& storage : program.storages) {
    bytes = checked_add(bytes,
                        static_cast<std::int64_t>(storage.binding_key.size()) + kBytesAroundString);
  }
  return bytes;
}

flatbuffers::DetachedBuffer encode_program(const ir::Program& program) {
  const WirePieces pieces = encode_pieces(program);
  const std::int64_t estimate = estimated_bytes(program, pieces);
  if (estimate > wire::kMaxBufferBytes) {
    throw Error(ErrorCode::Unsupported,
                "expected a program of less than 2^31 bytes, found " + std::to_string(estimate),
                "rank " + std::to_string(program.rank.value));
  }
  Builder builder(static_cast<std::size_t>(estimate));
  std::vector<std::string> keys;
  keys.reserve(program.storages.size());
  for (const ir::Storage& storage : program.storages) keys.push_back(storage.binding_key);
  std::vector<std::int32_t> ids;
  ids.reserve(program.storage_ids.size());
  for (const StorageId id : program.storage_ids) ids.push_back(id.value);

  const auto storages = structs(builder, program.storages);
  const auto binding_keys = builder.CreateVectorOfStrings(keys);
  const auto wire_pieces = builder.CreateVectorOfStructs(pieces.pieces);
  const auto piece_dims = builder.CreateVectorOfStructs(pieces.dims);
  const auto windows = structs(builder, program.windows);
  const auto window_numbers = builder.CreateVector(program.window_numbers);
  const auto storage_ids = builder.CreateVector(ids);
  const auto copies = structs(builder, program.copies);
  const auto fills = structs(builder, program.fills);
  const auto converts = structs(builder, program.converts);
  const auto sends = structs(builder, program.sends);
  const auto receives = structs(builder, program.receives);
  const auto slices = structs(builder, program.slices);
  const auto slice_dims = structs(builder, program.slice_dims);
  builder.Finish(wire::CreateProgram(builder, program.rank.value, storages, binding_keys,
                                     wire_pieces, piece_dims, windows, window_numbers, storage_ids,
                                     copies, fills, converts, sends, receives, slices, slice_dims));
  return builder.Release();
}

struct EncodedProgram {
  RankId rank;
  Sha256Digest content_digest{};
  flatbuffers::DetachedBuffer buffer;
};

// `body_start`: where in the file the first program lies.
flatbuffers::DetachedBuffer encode_index(const ir::Schedule& schedule,
                                         const std::vector<EncodedProgram>& programs,
                                         std::uint64_t body_start) {
  Builder builder;
  std::vector<wire::Tensor> tensors;
  std::vector<std::string> names;
  std::vector<std::int64_t> dims;
  for (const ir::TensorEntry& tensor : schedule.tensors) {
    const std::int32_t first = checked_int32(static_cast<std::int64_t>(dims.size()));
    tensors.emplace_back(wire::Range(first, tensor.shape.count), tensor.padding);
    names.push_back(tensor.name);
    dims.insert(dims.end(), tensor.shape.begin(), tensor.shape.end());
  }
  std::vector<wire::ProgramEntry> entries;
  std::vector<ProgramDigest> digests;
  std::uint64_t offset = body_start;
  for (const EncodedProgram& program : programs) {
    const Sha256Digest bytes_digest = sha256(bytes_of(program.buffer));
    entries.emplace_back(offset, program.buffer.size(), program.rank.value,
                         flatbuffers::span<const std::uint8_t, 32>(bytes_digest),
                         flatbuffers::span<const std::uint8_t, 32>(program.content_digest));
    digests.push_back({program.rank, program.content_digest});
    offset += wire::aligned(program.buffer.size());
  }
  const auto request = builder.CreateString(schedule.request);
  const auto model = builder.CreateString(schedule.digests.model);
  const auto source = builder.CreateString(schedule.digests.source_layout);
  const auto target = builder.CreateString(schedule.digests.target_layout);
  const auto topology = builder.CreateString(schedule.digests.topology);
  const auto plan_digest = builder.CreateString(digest_from_parts(schedule, digests));
  const auto algorithm = builder.CreateString(schedule.algorithm);
  const auto ranks = structs(builder, schedule.ranks);
  const auto wire_tensors = builder.CreateVectorOfStructs(tensors);
  const auto tensor_names = builder.CreateVectorOfStrings(names);
  const auto tensor_dims = builder.CreateVector(dims);
  const auto states = builder.CreateVectorOfStrings(schedule.states);
  const auto wire_programs = builder.CreateVectorOfStructs(entries);
  builder.Finish(wire::CreateIndex(builder, request, model, source, target, topology, plan_digest,
                                   algorithm, schedule.window_ops, schedule.num_windows, ranks,
                                   wire_tensors, tensor_names, tensor_dims, states, wire_programs));
  return builder.Release();
}

// The index is small beside the programs, but a hostile size must not reach the builder's assert.
void check_index_fits(const ir::Schedule& schedule) {
  std::int64_t bytes = static_cast<std::int64_t>(schedule.request.size() + 4096);
  bytes = checked_add(bytes, bytes_in<wire::RankEntry>(schedule.ranks.size()));
  bytes = checked_add(bytes, bytes_in<wire::ProgramEntry>(schedule.programs.size()));
  for (const ir::TensorEntry& tensor : schedule.tensors) {
    bytes = checked_add(bytes, static_cast<std::int64_t>(tensor.name.size()) + 96);
  }
  for (const std::string& state : schedule.states) {
    bytes = checked_add(bytes, static_cast<std::int64_t>(state.size()) + 16);
  }
  if (bytes > wire::kMaxBufferBytes) {
    throw Error(ErrorCode::Unsupported,
                "expected request, ranks and tensor names of less than 2^31 bytes, found " +
                    std::to_string(bytes),
                "plan index");
  }
}

void append_little_endian(std::string& bytes, std::uint64_t value, int width) {
  for (int i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i));
}

std::string header(std::uint64_t file_bytes, std::string_view index) {
  std::string bytes(wire::kMagic);
  append_little_endian(bytes, static_cast<std::uint64_t>(ir::kVersion), 4);
  append_little_endian(bytes, 0, 4);
  append_little_endian(bytes, file_bytes, 8);
  append_little_endian(bytes, index.size(), 8);
  const Sha256Digest digest = sha256(index);
  bytes.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  return bytes;
}

// Calls put(bytes) for the parts of the file in order; announce(total) comes first.
template <class Announce, class Put>
void encode_file(const ir::Schedule& schedule, Announce announce, Put put) {
  validate(schedule);
  if (!schedule.request.empty()) parse_request(schedule.request);
  check_index_fits(schedule);
  std::vector<EncodedProgram> programs;
  programs.reserve(schedule.programs.size());
  std::uint64_t body_bytes = 0;
  for (const ir::Program& program : schedule.programs) {
    const Sha256Digest content = program_digest(program);
    programs.push_back(
        {program.rank, content,
         is_canonical(program) ? encode_program(program) : encode_program(canonical(program))});
    body_bytes += wire::aligned(programs.back().buffer.size());
  }
  // The index's size does not depend on the offsets in it, so a first pass tells where they start.
  const std::uint64_t index_bytes = encode_index(schedule, programs, 0).size();
  const std::uint64_t body_start = wire::kHeaderBytes + wire::aligned(index_bytes);
  const flatbuffers::DetachedBuffer index = encode_index(schedule, programs, body_start);
  PLAN_CHECK(index.size() == index_bytes);

  static constexpr std::array<char, wire::kPartAlignment> kZeros{};
  const auto put_padded = [&](const flatbuffers::DetachedBuffer& buffer) {
    put(bytes_of(buffer));
    put(std::string_view(kZeros.data(), wire::aligned(buffer.size()) - buffer.size()));
  };
  announce(body_start + body_bytes);
  put(header(body_start + body_bytes, bytes_of(index)));
  put_padded(index);
  for (const EncodedProgram& program : programs) put_padded(program.buffer);
}

}  // namespace

void write_flatbuffers(const ir::Schedule& schedule, std::ostream& stream) {
  encode_file(
      schedule, [](std::uint64_t) {},
      [&](std::string_view part) {
        stream.write(part.data(), static_cast<std::streamsize>(part.size()));
      });
  stream.flush();
  if (!stream) throw Error(ErrorCode::Io, "the plan cannot be written");
}

std::string write_flatbuffers(const ir::Schedule& schedule) {
  std::string bytes;
  encode_file(
      schedule, [&](std::uint64_t total) { bytes.reserve(total); },
      [&](std::string_view part) { bytes += part; });
  return bytes;
}

}  // namespace plan
