#include "libplan/execute/host/element_cast.h"

#include <bit>
#include <cstring>
#include <string>

#include "libplan/base/error.h"

namespace plan {
namespace {

constexpr std::uint32_t kFloatInfinity = 0x7f800000;

template <class T>
T load(const std::byte* from, std::int64_t index) {
  T value;
  std::memcpy(&value, from + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void store(std::byte* to, std::int64_t index, T value) {
  std::memcpy(to + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

template <class From, class To, class Cast>
void convert_each(const std::byte* from, std::byte* to, std::int64_t count, Cast cast) {
  for (std::int64_t i = 0; i < count; ++i) store<To>(to, i, cast(load<From>(from, i)));
}

// The 16-bit value's dtype -> its value as a float's bits. Exact.
void widen(const std::byte* from, Dtype from_dtype, std::byte* to, std::int64_t count) {
  if (from_dtype == Dtype::Float16) {
    convert_each<std::uint16_t, std::uint32_t>(from, to, count, float_bits_of_half);
  } else {
    convert_each<std::uint16_t, std::uint32_t>(from, to, count, float_bits_of_bfloat16);
  }
}

void narrow(const std::byte* from, std::byte* to, Dtype to_dtype, std::int64_t count) {
  if (to_dtype == Dtype::Float16) {
    convert_each<std::uint32_t, std::uint16_t>(from, to, count, half_of_float_bits);
  } else {
    convert_each<std::uint32_t, std::uint16_t>(from, to, count, bfloat16_of_float_bits);
  }
}

bool is_floating(Dtype dtype) {
  return dtype == Dtype::Float64 || dtype == Dtype::Float32 || dtype == Dtype::Float16 ||
         dtype == Dtype::BFloat16;
}

// Through fp32, which holds every 16-bit value; in blocks that stay in the first-level cache.
void convert_through_float(const std::byte* from, Dtype from_dtype, std::byte* to, Dtype to_dtype,
                           std::int64_t count) {
  constexpr std::int64_t kBlock = 1024;
  std::byte floats[kBlock * 4];
  for (std::int64_t i = 0; i < count; i += kBlock) {
    const std::int64_t block = count - i < kBlock ? count - i : kBlock;
    widen(from + i * 2, from_dtype, floats, block);
    convert_elements(floats, Dtype::Float32, to + i * size_bytes(to_dtype), to_dtype, block);
  }
}

}  // namespace

std::uint32_t float_bits_of_bfloat16(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  const bool is_nan = (wide & 0x7fffffff) > kFloatInfinity;
  return is_nan ? wide | 0x00400000 : wide;
}

std::uint16_t bfloat16_of_float_bits(std::uint32_t bits) {
  const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const bool is_nan = (bits & 0x7fffffff) > kFloatInfinity;
  return static_cast<std::uint16_t>(is_nan ? (bits >> 16) | 0x0040 : rounded);
}

std::uint32_t float_bits_of_half(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1f;
  const std::uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0x1f) {  // infinity or NaN
    return sign | kFloatInfinity | (mantissa << 13) | (mantissa != 0 ? 0x00400000 : 0);
  }
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in a float
    return sign | std::bit_cast<std::uint32_t>(static_cast<float>(mantissa) * 0x1p-24f);
  }
  return sign | ((exponent + 112) << 23) | (mantissa << 13);
}

std::uint16_t half_of_float_bits(std::uint32_t bits) {
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  const std::uint32_t magnitude = bits & 0x7fffffff;
  std::uint32_t half = 0;
  if (magnitude > kFloatInfinity) {
    half = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  } else if (magnitude >= 0x47800000) {  // 2^16 and above
    half = 0x7c00;
  } else if (magnitude < 0x38800000) {  // below 2^-14: the sum's last place is 2^-24, so it rounds
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<std::uint32_t>(sum) - std::bit_cast<std::uint32_t>(0.5f);
  } else {  // a carry out of the mantissa rightly raises the exponent, up to infinity
    half = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

bool can_convert(Dtype from, Dtype to) {
  if (from == to) return true;
  if (!is_floating(from) || !is_floating(to)) return false;
  return from != Dtype::Float64 || to == Dtype::Float32;
}

void convert_elements(const std::byte* from, Dtype from_dtype, std::byte* to, Dtype to_dtype,
                      std::int64_t count) {
  if (!can_convert(from_dtype, to_dtype)) {
    throw Error(ErrorCode::Unsupported,
                "expected a cast between floating-point types that rounds once, found " +
                    std::string(name_of(from_dtype)) + " to " + std::string(name_of(to_dtype)));
  }
  if (from_dtype == to_dtype) {
    std::memcpy(to, from, static_cast<std::size_t>(count * size_bytes(from_dtype)));
  } else if (from_dtype == Dtype::Float64) {
    convert_each<double, float>(from, to, count, [](double x) { return static_cast<float>(x); });
  } else if (from_dtype == Dtype::Float32 && to_dtype == Dtype::Float64) {
    convert_each<float, double>(from, to, count, [](float x) { return static_cast<double>(x); });
  } else if (from_dtype == Dtype::Float32) {
    narrow(from, to, to_dtype, count);
  } else if (to_dtype == Dtype::Float32) {
    widen(from, from_dtype, to, count);
  } else {
    convert_through_float(from, from_dtype, to, to_dtype, count);
  }
}

}  // namespace plan
