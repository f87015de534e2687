#include "libplan/verify/geometry.h"

#include <catch2/catch.hpp>
#include <random>

#include "tests/verify/builder.h"

namespace plan::verify {
namespace {

// One storage of one-byte elements, with pieces, and one slice over it.
ir::Program program_of(std::vector<ir::Piece> pieces, std::int64_t size, ir::Slice slice,
                       std::vector<ir::SliceDim> dims) {
  ir::Program program;
  program.pieces = std::move(pieces);
  ir::Storage storage;
  storage.size_bytes = size;
  storage.pieces = {0, static_cast<std::int32_t>(program.pieces.size())};
  program.storages.push_back(storage);
  program.slice_dims = std::move(dims);
  slice.storage = StorageId(0);
  slice.dims = {0, static_cast<std::int32_t>(program.slice_dims.size())};
  program.slices.push_back(slice);
  return program;
}

std::vector<Part> decode(const ir::Program& program) {
  std::vector<Part> parts;
  Budget budget{1000000};
  REQUIRE(decode_lane(program, ProgramPieces(program), program.slices[0], 0, parts, budget));
  return parts;
}

using Element = std::vector<std::int64_t>;  // tensor, index...; empty: no piece

std::vector<Element> elements_of_parts(const ir::Program& program) {
  const ProgramPieces pieces(program);
  std::vector<Element> elements;
  for (const Part& part : decode(program)) {
    std::int64_t count = 0;
    const Dims extents = part.box.extents();
    for (std::int64_t flat = 0; flat < part.num_elems; ++flat, ++count) {
      if (part.piece < 0) {
        elements.emplace_back();
        continue;
      }
      const auto at = static_cast<std::size_t>(part.piece);
      Element element(static_cast<std::size_t>(extents.count) + 1);
      element[0] = pieces.of(StorageId(0)).pieces()[at].tensor.value;
      std::int64_t rest = flat;
      for (int axis = extents.count - 1; axis >= 0; --axis) {
        element[static_cast<std::size_t>(axis) + 1] = part.box[axis].begin + rest % extents[axis];
        rest /= extents[axis];
      }
      elements.push_back(element);
    }
    if (part.piece >= 0) CHECK(part.num_elems == part.box.num_elements());
  }
  return elements;
}

// The same by a table of what lies at each address.
std::vector<Element> elements_by_table(const ir::Program& program) {
  std::vector<Element> table(static_cast<std::size_t>(program.storages[0].size_bytes));
  for (const ir::Piece& piece : program.pieces) {
    const Dims extents = piece.box.extents();
    for (std::int64_t flat = 0; flat < num_elements(extents); ++flat) {
      Element element(static_cast<std::size_t>(extents.count) + 1);
      element[0] = piece.tensor.value;
      std::int64_t rest = flat;
      std::int64_t address = piece.offset_elems;
      for (int axis = extents.count - 1; axis >= 0; --axis) {
        const std::int64_t i = rest % extents[axis];
        element[static_cast<std::size_t>(axis) + 1] = piece.box[axis].begin + i;
        address += i * piece.strides_elems[axis];
        rest /= extents[axis];
      }
      table.at(static_cast<std::size_t>(address)) = element;
    }
  }
  std::vector<std::int64_t> starts = {program.slices[0].offset_bytes};
  for (const ir::SliceDim& dim : program.slice_dims) {
    std::vector<std::int64_t> next;
    for (const std::int64_t start : starts) {
      for (std::int64_t i = 0; i < dim.count; ++i) next.push_back(start + i * dim.stride_bytes);
    }
    starts = next;
  }
  std::vector<Element> elements;
  for (const std::int64_t start : starts) {
    for (std::int64_t i = 0; i < program.slices[0].run_bytes; ++i) {
      elements.push_back(table.at(static_cast<std::size_t>(start + i)));
    }
  }
  return elements;
}

ir::Piece piece_of(std::int32_t tensor, const Box& box, std::int64_t offset, const Dims& strides) {
  return {TensorId(tensor), box, offset, strides};
}

TEST_CASE("a slice that addresses a box of a piece is one part") {
  // 2 x 8 x 8 in row-major order: rows [2, 5), columns [1, 4) of both planes.
  const ir::Piece whole = piece_of(0, {{0, 2}, {0, 8}, {0, 8}}, 0, {64, 8, 1});
  ir::Slice slice;
  slice.offset_bytes = 17;
  slice.run_bytes = 3;
  const auto parts = decode(program_of({whole}, 128, slice, {{2, 64}, {3, 8}}));
  REQUIRE(parts.size() == 1);
  CHECK(parts[0].box == Box{{0, 2}, {2, 5}, {1, 4}});
  // Memory order [column, row]: the box's order needs runs of one element.
  const ir::Piece turned = piece_of(0, {{10, 14}, {20, 24}}, 0, {1, 4});
  slice.offset_bytes = 0;
  slice.run_bytes = 1;
  const auto columns = decode(program_of({turned}, 16, slice, {{2, 1}, {4, 4}}));
  REQUIRE(columns.size() == 1);
  CHECK(columns[0].box == Box{{10, 12}, {20, 24}});
}

TEST_CASE("a flat range of a large piece stays a few parts") {
  const ir::Piece whole = piece_of(0, {{0, 100}, {0, 100}, {0, 100}}, 5, {10000, 100, 1});
  ir::Slice slice;
  slice.offset_bytes = 5 + 12345;
  slice.run_bytes = 543210;
  CHECK(decode(program_of({whole}, 2000000, slice, {})).size() <= 5);
}

TEST_CASE("gaps between pieces are single parts") {
  ir::Slice slice;
  slice.run_bytes = 1000000;
  const auto parts = decode(program_of(
      {piece_of(0, {{0, 4}}, 10, {1}), piece_of(1, {{0, 4}}, 500000, {1})}, 1000000, slice, {}));
  REQUIRE(parts.size() == 5);
  CHECK(parts[2].piece == -1);
  CHECK(parts[2].num_elems == 500000 - 14);
}

TEST_CASE("any slice over any pieces decodes to the elements that lie there") {
  std::mt19937_64 random(20261203);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<ir::Piece> pieces;
    std::int64_t offset = 0;
    const auto num_pieces = pick(1, 4);
    for (std::int64_t p = 0; p < num_pieces; ++p) {
      offset += pick(0, 3);
      const int dims = static_cast<int>(pick(0, 3));
      ir::Piece piece;
      piece.tensor = TensorId(static_cast<std::int32_t>(p));
      piece.offset_elems = offset;
      std::vector<int> order;
      for (int axis = 0; axis < dims; ++axis) {
        const std::int64_t begin = pick(0, 3);
        piece.box.count = axis + 1;
        piece.box[axis] = {begin, begin + pick(1, 4)};
        piece.strides_elems.push_back(1);
        order.insert(order.begin() + pick(0, axis), axis);
      }
      std::int64_t stride = 1;
      for (const int axis : order) {
        piece.strides_elems[axis] = stride;
        stride = stride * piece.box[axis].length() + (pick(0, 3) == 0 ? pick(0, 2) : 0);
      }
      offset += stride;
      pieces.push_back(piece);
    }
    const std::int64_t size = offset + 3;
    ir::Slice slice;
    std::vector<ir::SliceDim> dims;
    slice.run_bytes = pick(1, std::min<std::int64_t>(size, 12));
    std::int64_t reach = slice.run_bytes;
    const auto num_dims = pick(0, 3);
    for (std::int64_t d = 0; d < num_dims; ++d) {
      const ir::SliceDim dim{pick(1, 4), pick(0, 12)};
      if (reach + (dim.count - 1) * dim.stride_bytes > size) continue;
      reach += (dim.count - 1) * dim.stride_bytes;
      dims.push_back(dim);
    }
    slice.offset_bytes = pick(0, size - reach);
    const ir::Program program = program_of(pieces, size, slice, dims);
    CAPTURE(round);
    REQUIRE(elements_of_parts(program) == elements_by_table(program));
  }
}

}  // namespace
}  // namespace plan::verify
