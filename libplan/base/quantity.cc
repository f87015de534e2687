#include "libplan/base/quantity.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "libplan/base/checked.h"
#include "libplan/base/error.h"
#include "libplan/base/json_tree.h"

namespace plan {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::Usage, message); }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// number * unit_numerator / unit_denominator, exactly.
struct Unit {
  std::string_view name;
  std::int64_t numerator;
  std::int64_t denominator;
};

constexpr std::array<Unit, 18> kRateUnits{{{"B/s", 1, 1},
                                           {"kB/s", 1'000, 1},
                                           {"MB/s", 1'000'000, 1},
                                           {"GB/s", 1'000'000'000, 1},
                                           {"TB/s", 1'000'000'000'000, 1},
                                           {"KiB/s", std::int64_t{1} << 10, 1},
                                           {"MiB/s", std::int64_t{1} << 20, 1},
                                           {"GiB/s", std::int64_t{1} << 30, 1},
                                           {"TiB/s", std::int64_t{1} << 40, 1},
                                           {"b/s", 1, 8},
                                           {"kb/s", 1'000, 8},
                                           {"Mb/s", 1'000'000, 8},
                                           {"Gb/s", 1'000'000'000, 8},
                                           {"Tb/s", 1'000'000'000'000, 8},
                                           {"Kib/s", std::int64_t{1} << 10, 8},
                                           {"Mib/s", std::int64_t{1} << 20, 8},
                                           {"Gib/s", std::int64_t{1} << 30, 8},
                                           {"Tib/s", std::int64_t{1} << 40, 8}}};
constexpr std::array<Unit, 9> kSizeUnits{{{"", 1, 1},
                                          {"B", 1, 1},
                                          {"kB", 1'000, 1},
                                          {"MB", 1'000'000, 1},
                                          {"GB", 1'000'000'000, 1},
                                          {"TB", 1'000'000'000'000, 1},
                                          {"KiB", std::int64_t{1} << 10, 1},
                                          {"MiB", std::int64_t{1} << 20, 1},
                                          {"GiB", std::int64_t{1} << 30, 1}}};
constexpr std::array<Unit, 4> kTimeUnits{
    {{"ns", 1, 1}, {"us", 1'000, 1}, {"ms", 1'000'000, 1}, {"s", 1'000'000'000, 1}}};

// `text` is digits, perhaps a point and digits, then one of the units. `what` is "rate" or
// "latency", `whole` the unit of the result.
template <std::size_t N>
std::int64_t parse_quantity(std::string_view text, const std::array<Unit, N>& units,
                            const std::string& what, const std::string& whole_unit) {
  std::size_t at = 0;
  std::int64_t digits = 0;
  std::int64_t scale = 1;
  std::size_t whole_digits = 0;
  std::size_t fraction_digits = 0;
  for (; at < text.size() && (is_digit(text[at]) || text[at] == '.'); ++at) {
    if (text[at] == '.') {
      if (scale != 1 || whole_digits == 0 || at + 1 == text.size() || !is_digit(text[at + 1])) {
        refuse("expected a decimal number with a unit, found " + json_quote(text));
      }
      for (++at; at < text.size() && is_digit(text[at]); ++at, ++fraction_digits) {
        if (fraction_digits >= 12) refuse("at most 12 digits may follow the point");
        digits = checked_add(checked_mul(digits, 10), text[at] - '0');
        scale *= 10;
      }
      break;
    }
    if (++whole_digits > 15) refuse("the number is too large");
    digits = digits * 10 + (text[at] - '0');
  }
  const std::string_view unit_name = text.substr(at);
  const auto unit = std::find_if(units.begin(), units.end(),
                                 [&](const Unit& known) { return known.name == unit_name; });
  if (whole_digits == 0 || unit == units.end()) {
    std::string names;
    for (const Unit& known : units) names += (names.empty() ? "" : ", ") + std::string(known.name);
    refuse("expected a " + what + ", a number followed by one of " + names + "; found " +
           json_quote(text));
  }
  // Cancel before multiplying, so that exactness is seen and nothing overflows needlessly.
  std::int64_t denominator = checked_mul(scale, unit->denominator);
  std::int64_t numerator = unit->numerator;
  const std::int64_t common_unit = std::gcd(numerator, denominator);
  numerator /= common_unit;
  denominator /= common_unit;
  const std::int64_t common_digits = std::gcd(digits, denominator);
  denominator /= common_digits;
  if (denominator != 1) {
    refuse("the " + what + " " + json_quote(text) + " is no whole number of " + whole_unit);
  }
  return checked_mul(digits / common_digits, numerator);
}

}  // namespace

std::int64_t parse_rate(std::string_view text) {
  return parse_quantity(text, kRateUnits, "rate", "bytes per second");
}

std::int64_t parse_duration_ns(std::string_view text) {
  return parse_quantity(text, kTimeUnits, "latency", "nanoseconds");
}

std::int64_t parse_size_bytes(std::string_view text) {
  return parse_quantity(text, kSizeUnits, "size", "bytes");
}

std::string bytes_text(std::int64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  std::int64_t scale = 1;
  while (unit + 1 < kUnits.size() && bytes / scale >= 1024) {
    scale *= 1024;
    ++unit;
  }
  if (unit == 0) return std::to_string(bytes) + " B";
  const std::int64_t hundredths = bytes / scale * 100 + (bytes % scale) * 100 / scale;
  const std::string fraction = std::to_string(hundredths % 100);
  return std::to_string(hundredths / 100) + "." + (fraction.size() < 2 ? "0" : "") + fraction +
         " " + kUnits[unit];
}

}  // namespace plan
