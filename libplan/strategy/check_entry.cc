#include "libplan/strategy/check_entry.h"

#include <algorithm>
#include <limits>

#include "libplan/base/json_tree.h"

namespace plan::check {
namespace {

Versions bit_of(MegatronVersion version) {
  switch (version) {
    case MegatronVersion::V011: return k011;
    case MegatronVersion::V013: return k013;
    case MegatronVersion::V020: break;
  }
  return kNewest;
}

std::string older_names(Versions versions) {
  const bool both = (versions & kOlder) == kOlder;
  return both ? "0.11 and 0.13" : (versions & k011) != 0 ? "0.11" : "0.13";
}

}  // namespace

bool EntryChecker::in_force(Versions versions) const {
  return !options.version || (versions & bit_of(*options.version)) != 0;
}

bool EntryChecker::usable(std::initializer_list<const char*> keys) const {
  return std::all_of(keys.begin(), keys.end(),
                     [&](const char* key) { return entry.reading.usable(key); });
}

void EntryChecker::report(const char* rule, Severity severity, Versions versions,
                          const std::string& key, std::string message, std::string fix) {
  if (!in_force(versions)) return;
  const bool only_older = (versions & kNewest) == 0;
  if (!options.version && only_older) {
    message = severity == Severity::Note ? "with " + older_names(versions) + ": " + message
                                         : older_names(versions) + " would refuse this: " + message;
    severity = Severity::Note;
  }
  if (severity == Severity::Error) entry.has_error = true;
  Diagnostic found;
  found.rule = rule;
  found.severity = severity;
  found.entry = entry.index;
  found.name = entry.name;
  found.pointer = "/" + std::to_string(entry.index) + (key.empty() ? "" : pointer_step(key));
  const auto known = entry.reading.positions.find(key);
  const TextPosition position =
      known == entry.reading.positions.end() ? entry.reading.position : known->second;
  found.line = position.line;
  found.column = position.column;
  found.message = std::move(message);
  found.fix = std::move(fix);
  findings_.push_back(std::move(found));
}

std::string num(std::int64_t number) { return std::to_string(number); }

std::string quoted(const std::string& name) { return json_quote(name); }

std::string entry_title(const Entry& entry) {
  return entry.name.empty() ? "entry " + num(entry.index) : entry.name;
}

std::string small_divisors(std::int64_t number) {
  std::string text;
  int count = 0;
  for (std::int64_t d = 1; d <= 64 && d <= number && count < 4; ++d) {
    if (number % d != 0) continue;
    text += (count++ == 0 ? "" : ", ") + num(d);
  }
  return text;
}

std::int64_t saturating_product(std::initializer_list<std::int64_t> factors) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    product = factor != 0 && product > kMax / factor ? kMax : product * factor;
  }
  return product;
}

}  // namespace plan::check
