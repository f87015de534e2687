// The frame around the FlatBuffers of a plan file; shared by writer and reader only.
//
//   0  magic "LIBPLAN" and a zero byte
//   8  u32 version, u32 zero
//  16  u64 bytes of the file
//  24  u64 bytes of the index
//  32  SHA-256 of the index
//  64  index, zeros up to a multiple of 16, then program after program, each with zeros up to a
//      multiple of 16
#pragma once

#include <cstdint>
#include <string_view>

namespace plan::wire {

inline constexpr std::string_view kMagic{"LIBPLAN\0", 8};
inline constexpr std::uint64_t kHeaderBytes = 64;
inline constexpr std::uint64_t kPartAlignment = 16;
// Offsets inside a FlatBuffer are 31 bits; some room is left for its own tables.
inline constexpr std::int64_t kMaxBufferBytes = (std::int64_t{1} << 31) - (1 << 16);

constexpr std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
}

}  // namespace plan::wire
