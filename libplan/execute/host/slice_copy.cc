#include "libplan/execute/host/slice_copy.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "libplan/base/error.h"
#include "libplan/execute/host/element_cast.h"

namespace plan {
namespace {

// From this many bytes a copy leaves nothing useful in the caches, so its stores go around them:
// an ordinary store would first read the line that it overwrites.
constexpr std::int64_t kStreamingBytes = std::int64_t{1} << 20;
// Shorter runs waste more on the partial lines at their ends than they save.
constexpr std::int64_t kStreamingRunBytes = 512;

#if defined(__SSE2__)
// Like memcpy, with non-temporal stores; the caller fences.
void stream_run(std::byte* to, const std::byte* from, std::int64_t bytes) {
  const auto misaligned = static_cast<std::int64_t>(std::bit_cast<std::uintptr_t>(to) % 64);
  const std::int64_t head = misaligned == 0 ? 0 : std::min(bytes, 64 - misaligned);
  std::memcpy(to, from, static_cast<std::size_t>(head));
  std::int64_t at = head;
  for (; at + 64 <= bytes; at += 64) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  std::memcpy(to + at, from + at, static_cast<std::size_t>(bytes - at));
}
void fence_streams() { _mm_sfence(); }
#else
void stream_run(std::byte* to, const std::byte* from, std::int64_t bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
void fence_streams() {}
#endif

// `rows` runs of equal length.
struct Rows {
  std::byte* to;
  std::int64_t to_stride;
  const std::byte* from;
  std::int64_t from_stride;
  std::int64_t rows;
};

template <std::size_t kRun>
void copy_rows_of(const Rows& block) {
  for (std::int64_t i = 0; i < block.rows; ++i) {
    std::memcpy(block.to + i * block.to_stride, block.from + i * block.from_stride, kRun);
  }
}

// Short runs cost a call each unless their length is known to the compiler.
void copy_rows(const Rows& block, std::int64_t run, bool streaming) {
  switch (run) {
    case 1: return copy_rows_of<1>(block);
    case 2: return copy_rows_of<2>(block);
    case 4: return copy_rows_of<4>(block);
    case 8: return copy_rows_of<8>(block);
    case 16: return copy_rows_of<16>(block);
    case 32: return copy_rows_of<32>(block);
    case 64: return copy_rows_of<64>(block);
    case 128: return copy_rows_of<128>(block);
    default: break;
  }
  const bool stream = streaming && run >= kStreamingRunBytes;
  for (std::int64_t i = 0; i < block.rows; ++i) {
    std::byte* to = block.to + i * block.to_stride;
    const std::byte* from = block.from + i * block.from_stride;
    if (stream) {
      stream_run(to, from, run);
    } else {
      std::memcpy(to, from, static_cast<std::size_t>(run));
    }
  }
}

// Copies what both cursors allow in one loop of at most `budget` bytes and returns its bytes. Three
// cases are one loop over rows: equal runs; runs of one side inside a longer run of the other.
std::int64_t copy_step(RunCursor& from, RunCursor& to, std::int64_t budget, bool streaming) {
  const bool from_rows = from.at_run_start() && from.run_bytes() <= to.left();
  const bool to_rows = to.at_run_start() && to.run_bytes() <= from.left();
  const std::int64_t run = from_rows ? from.run_bytes() : to.run_bytes();
  if ((!from_rows && !to_rows) || run > budget) {
    const std::int64_t bytes = std::min({from.left(), to.left(), budget});
    copy_rows({to.pointer(), 0, from.pointer(), 0, 1}, bytes, streaming);
    from.advance(bytes);
    to.advance(bytes);
    return bytes;
  }
  std::int64_t rows = budget / run;
  rows = std::min(rows, from_rows ? from.rows() : from.left() / run);
  rows = std::min(rows, to_rows ? to.rows() : to.left() / run);
  copy_rows({to.pointer(), to_rows ? to.row_stride() : run, from.pointer(),
             from_rows ? from.row_stride() : run, rows},
            run, streaming);
  from_rows ? from.advance_rows(rows) : from.advance(rows * run);
  to_rows ? to.advance_rows(rows) : to.advance(rows * run);
  return rows * run;
}

[[noreturn]] void throw_sizes(const char* what, std::int64_t from, std::int64_t to) {
  throw Error(ErrorCode::Executor, std::string("expected slices of equal ") + what + ", found " +
                                       std::to_string(from) + " and " + std::to_string(to));
}

void require_whole_elements(const SliceList& list, Dtype dtype) {
  for (const SliceList::Entry& entry : list.entries()) {
    if (entry.run_bytes % size_bytes(dtype) == 0) continue;
    throw Error(ErrorCode::Executor, "expected runs of whole " + std::string(name_of(dtype)) +
                                         " elements, found a run of " +
                                         std::to_string(entry.run_bytes) + " bytes");
  }
}

}  // namespace

void copy_slices(const SliceList& from, const SliceList& to, Interval part) {
  if (from.num_bytes() != to.num_bytes()) throw_sizes("bytes", from.num_bytes(), to.num_bytes());
  if (part.begin < 0 || part.end > from.num_bytes()) {
    throw Error(ErrorCode::Executor, "expected a part of " + std::to_string(from.num_bytes()) +
                                         " bytes, found [" + std::to_string(part.begin) + ", " +
                                         std::to_string(part.end) + ")");
  }
  if (part.empty()) return;
  const bool streaming = from.num_bytes() >= kStreamingBytes;
  RunCursor reader(from, part.begin);
  RunCursor writer(to, part.begin);
  for (std::int64_t left = part.length(); left > 0;) {
    left -= copy_step(reader, writer, left, streaming);
  }
  if (streaming) fence_streams();
}

void copy_slices(const SliceList& from, const SliceList& to) {
  copy_slices(from, to, {0, from.num_bytes()});
}

void gather_slices(const SliceList& from, std::byte* packed) {
  SliceList to;
  to.append(packed, from.num_bytes(), {});
  copy_slices(from, to);
}

void scatter_slices(const std::byte* packed, const SliceList& to) {
  SliceList from;
  from.append(const_cast<std::byte*>(packed), to.num_bytes(), {});  // only read
  copy_slices(from, to);
}

void fill_slices(const SliceList& to, std::uint64_t pattern, int pattern_bytes) {
  if (!std::has_single_bit(static_cast<unsigned>(pattern_bytes)) || pattern_bytes > 8) {
    throw Error(ErrorCode::Executor, "expected a fill pattern of 1, 2, 4 or 8 bytes, found " +
                                         std::to_string(pattern_bytes));
  }
  std::byte block[1024];  // whole repetitions of every pattern
  for (std::size_t i = 0; i < sizeof block; ++i) {
    const auto shift = 8 * (i % static_cast<std::size_t>(pattern_bytes));
    block[i] = static_cast<std::byte>(pattern >> shift);
  }
  std::int64_t done = 0;
  for (RunCursor writer(to, 0); writer.left() > 0;) {
    const std::int64_t phase = done % pattern_bytes;
    const std::int64_t bytes =
        std::min(writer.left(), static_cast<std::int64_t>(sizeof block) - phase);
    std::memcpy(writer.pointer(), block + phase, static_cast<std::size_t>(bytes));
    writer.advance(bytes);
    done += bytes;
  }
}

void convert_slices(const SliceList& from, Dtype from_dtype, const SliceList& to, Dtype to_dtype) {
  const std::int64_t from_width = size_bytes(from_dtype);
  const std::int64_t to_width = size_bytes(to_dtype);
  require_whole_elements(from, from_dtype);
  require_whole_elements(to, to_dtype);
  const std::int64_t count = from.num_bytes() / from_width;
  if (count != to.num_bytes() / to_width) {
    throw_sizes("element count", count, to.num_bytes() / to_width);
  }
  RunCursor reader(from, 0);
  RunCursor writer(to, 0);
  while (reader.left() > 0) {
    const std::int64_t elements = std::min(reader.left() / from_width, writer.left() / to_width);
    convert_elements(reader.pointer(), from_dtype, writer.pointer(), to_dtype, elements);
    reader.advance(elements * from_width);
    writer.advance(elements * to_width);
  }
}

}  // namespace plan
