// Integer arithmetic that refuses to wrap: every size, offset and count in libplan is a checked
// int64. All functions throw Error(BadInput) on overflow, since only an input can cause it.
#pragma once

#include <cstdint>

namespace plan {

// For products of two int64 that are divided again at once; a GCC and Clang extension.
__extension__ using Int128 = __int128;

std::int64_t checked_add(std::int64_t a, std::int64_t b);
std::int64_t checked_sub(std::int64_t a, std::int64_t b);
std::int64_t checked_mul(std::int64_t a, std::int64_t b);

// Smallest multiple of `divisor` that is >= `value`; value >= 0, divisor > 0.
std::int64_t ceil_to(std::int64_t value, std::int64_t divisor);

// ceil(a / b) for a >= 0, b > 0.
std::int64_t ceil_div(std::int64_t a, std::int64_t b);

// Least common multiple of two positive numbers.
std::int64_t checked_lcm(std::int64_t a, std::int64_t b);

// Narrows to int32, refusing values outside its range.
std::int32_t checked_int32(std::int64_t value);

}  // namespace plan
