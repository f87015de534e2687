#include "libplan/base/checked.h"

#include <limits>
#include <numeric>
#include <string>

#include "libplan/base/error.h"

namespace plan {
namespace {

[[noreturn]] void throw_overflow(const char* operation, std::int64_t a, std::int64_t b) {
  throw Error(ErrorCode::BadInput, std::string("a size leaves the range of 64-bit integers: ") +
                                       std::to_string(a) + " " + operation + " " +
                                       std::to_string(b));
}

}  // namespace

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw_overflow("+", a, b);
  return sum;
}

std::int64_t checked_sub(std::int64_t a, std::int64_t b) {
  std::int64_t difference = 0;
  if (__builtin_sub_overflow(a, b, &difference)) throw_overflow("-", a, b);
  return difference;
}

std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) throw_overflow("*", a, b);
  return product;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  PLAN_CHECK(a >= 0 && b > 0);
  return a / b + (a % b != 0);
}

std::int64_t ceil_to(std::int64_t value, std::int64_t divisor) {
  return checked_mul(ceil_div(value, divisor), divisor);
}

std::int64_t checked_lcm(std::int64_t a, std::int64_t b) {
  PLAN_CHECK(a > 0 && b > 0);
  return checked_mul(a / std::gcd(a, b), b);
}

std::int32_t checked_int32(std::int64_t value) {
  if (value < std::numeric_limits<std::int32_t>::min() ||
      value > std::numeric_limits<std::int32_t>::max()) {
    throw Error(ErrorCode::BadInput,
                "expected a number that fits 32 bits, found " + std::to_string(value));
  }
  return static_cast<std::int32_t>(value);
}

}  // namespace plan
