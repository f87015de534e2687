#include "libplan/execute/host/element_cast.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "libplan/base/error.h"

namespace plan {
namespace {

// A 16-bit format, decoded by the definition of IEEE 754.
struct Format {
  int mantissa_bits;
  int exponent_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int largest_exponent() const { return (1 << exponent_bits) - 1; }
  std::uint16_t infinity() const {
    return static_cast<std::uint16_t>(largest_exponent() << mantissa_bits);
  }
};
constexpr Format kHalf{10, 5};
constexpr Format kBFloat16{7, 8};

double decode(const Format& format, std::uint16_t bits) {
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const int exponent = (bits >> format.mantissa_bits) & format.largest_exponent();
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == format.largest_exponent()) return mantissa != 0 ? NAN : sign * INFINITY;
  const int lifted = exponent == 0 ? mantissa : mantissa + (1 << format.mantissa_bits);
  return sign * std::ldexp(lifted, std::max(exponent, 1) - format.bias() - format.mantissa_bits);
}

// The values of the patterns from zero to infinity, ascending.
const std::vector<double>& values_of(const Format& format) {
  static const auto list = [](const Format& of) {
    std::vector<double> values;
    for (int bits = 0; bits <= of.infinity(); ++bits) {
      values.push_back(decode(of, static_cast<std::uint16_t>(bits)));
    }
    return values;
  };
  static const std::vector<double> halves = list(kHalf);
  static const std::vector<double> bfloats = list(kBFloat16);
  return format.mantissa_bits == kHalf.mantissa_bits ? halves : bfloats;
}

// The nearest value of the format, found by bisection over its positive values; ties to even.
std::uint16_t nearest(const Format& format, float value) {
  const std::vector<double>& values = values_of(format);
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double magnitude = std::fabs(static_cast<double>(value));
  std::uint16_t below = 0;
  std::uint16_t above = format.infinity();
  while (above - below > 1) {
    const auto middle = static_cast<std::uint16_t>((above + below) / 2);
    (values[middle] <= magnitude ? below : above) = middle;
  }
  // Beyond the largest value the next one up would be 2^(largest exponent - bias).
  const double up = above == format.infinity()
                        ? std::ldexp(1.0, format.largest_exponent() - format.bias())
                        : values[above];
  const double to_below = magnitude - values[below];
  const double to_above = up - magnitude;
  const bool take_above = to_above < to_below || (to_above == to_below && below % 2 == 1);
  return static_cast<std::uint16_t>(sign | (take_above ? above : below));
}

void check_narrowing(std::uint32_t bits) {
  const auto value = std::bit_cast<float>(bits);
  const std::uint16_t half = half_of_float_bits(bits);
  const std::uint16_t bfloat = bfloat16_of_float_bits(bits);
  const bool right = std::isnan(value)
                         ? std::isnan(decode(kHalf, half)) && std::isnan(decode(kBFloat16, bfloat))
                         : half == nearest(kHalf, value) && bfloat == nearest(kBFloat16, value);
  if (!right) FAIL("fp32 pattern " << bits << " became fp16 " << half << ", bf16 " << bfloat);
}

TEST_CASE("all 65536 half and bfloat16 patterns widen exactly and come back") {
  for (std::uint32_t i = 0; i <= 0xffff; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    for (const Format* format : {&kHalf, &kBFloat16}) {
      const bool is_half = format == &kHalf;
      const std::uint32_t wide = is_half ? float_bits_of_half(bits) : float_bits_of_bfloat16(bits);
      const double expected = decode(*format, bits);
      const auto found = static_cast<double>(std::bit_cast<float>(wide));
      const std::uint16_t back = is_half ? half_of_float_bits(wide) : bfloat16_of_float_bits(wide);
      if (std::isnan(expected)) {
        if (!std::isnan(found) || !std::isnan(decode(*format, back))) FAIL("no NaN from " << bits);
      } else if (found != expected || std::signbit(found) != std::signbit(expected) ||
                 back != bits) {
        FAIL("pattern " << bits << " became fp32 pattern " << wide);
      }
    }
  }
}

TEST_CASE("fp32 narrows to the nearest 16-bit value: every midpoint and both its neighbours") {
  for (const Format* format : {&kHalf, &kBFloat16}) {
    for (std::uint16_t bits = 0; bits + 1 < format->infinity(); ++bits) {
      const double middle =
          (decode(*format, bits) + decode(*format, static_cast<std::uint16_t>(bits + 1))) / 2;
      const auto pattern = std::bit_cast<std::uint32_t>(static_cast<float>(middle));
      for (std::uint32_t near = pattern - 1; near != pattern + 2; ++near) check_narrowing(near);
    }
  }
}

TEST_CASE("fp32 narrows to the nearest 16-bit value: random patterns and the edges of the range") {
  for (const std::uint32_t bits :
       {0u, 0x80000000u, 1u, 0x7f800000u, 0xff800000u, 0x7f800001u, 0x7fc00000u, 0x7fffffffu,
        0x7f7fffffu, 0x477fefffu, 0x477ff000u, 0x477fffffu, 0x47800000u, 0x33000000u, 0x33000001u,
        0x7f7f7fffu, 0x7f7f8000u}) {
    check_narrowing(bits);
    check_narrowing(bits | 0x80000000u);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) check_narrowing(static_cast<std::uint32_t>(random()));
  // Most random exponents overflow or vanish in fp16: draw from its range too.
  for (int i = 0; i < 200000; ++i) {
    const auto exponent = static_cast<std::uint32_t>(100 + random() % 45);
    check_narrowing((exponent << 23) | static_cast<std::uint32_t>(random() & 0x807fffff));
  }
}

template <class From, class To>
To converted(From value, Dtype from, Dtype to) {
  To result{};
  convert_elements(reinterpret_cast<const std::byte*>(&value), from,
                   reinterpret_cast<std::byte*>(&result), to, 1);
  return result;
}

TEST_CASE("fp64 goes to fp32 by rounding and comes back exactly") {
  std::mt19937_64 random(2);
  for (int i = 0; i < 10000; ++i) {
    const auto value = std::bit_cast<double>(random());
    const auto narrow = converted<double, float>(value, Dtype::Float64, Dtype::Float32);
    if (std::isnan(value)) {
      REQUIRE(std::isnan(narrow));
      continue;
    }
    REQUIRE(narrow == static_cast<float>(value));
    REQUIRE(converted<float, double>(narrow, Dtype::Float32, Dtype::Float64) ==
            static_cast<double>(narrow));
  }
  const auto tie = 1.0 + std::ldexp(1.0, -24);
  REQUIRE(converted<double, float>(tie, Dtype::Float64, Dtype::Float32) == 1.0f);
}

TEST_CASE("casts between 16-bit types and to fp64 go through fp32, at any length and alignment") {
  std::vector<std::byte> halves(2 * 5000 + 1);
  std::mt19937 random(3);
  for (std::byte& byte : halves) byte = static_cast<std::byte>(random());
  std::vector<std::byte> bfloats(2 * 5000 + 3);
  std::vector<std::byte> doubles(8 * 5000 + 3);
  convert_elements(halves.data() + 1, Dtype::Float16, bfloats.data() + 3, Dtype::BFloat16, 5000);
  convert_elements(halves.data() + 1, Dtype::Float16, doubles.data() + 3, Dtype::Float64, 5000);
  for (std::size_t i = 0; i < 5000; ++i) {
    std::uint16_t half = 0;
    std::uint16_t bfloat = 0;
    double wide = 0;
    std::memcpy(&half, halves.data() + 1 + 2 * i, 2);
    std::memcpy(&bfloat, bfloats.data() + 3 + 2 * i, 2);
    std::memcpy(&wide, doubles.data() + 3 + 8 * i, 8);
    REQUIRE(bfloat == bfloat16_of_float_bits(float_bits_of_half(half)));
    const double expected = decode(kHalf, half);
    REQUIRE((wide == expected || (std::isnan(wide) && std::isnan(expected))));
  }
}

TEST_CASE("integers only convert to themselves, and nothing rounds twice") {
  REQUIRE(can_convert(Dtype::Int32, Dtype::Int32));
  REQUIRE(can_convert(Dtype::Float8E4M3, Dtype::Float8E4M3));
  REQUIRE_FALSE(can_convert(Dtype::Int32, Dtype::Float32));
  REQUIRE_FALSE(can_convert(Dtype::Float32, Dtype::Int32));
  REQUIRE_FALSE(can_convert(Dtype::Float8E4M3, Dtype::Float32));
  REQUIRE_FALSE(can_convert(Dtype::Float64, Dtype::BFloat16));
  REQUIRE(converted<std::int32_t, std::int32_t>(-7, Dtype::Int32, Dtype::Int32) == -7);
  REQUIRE_THROWS_AS((converted<std::int32_t, float>(1, Dtype::Int32, Dtype::Float32)), Error);
}

}  // namespace
}  // namespace plan
