// One entry of a strategy list, read key by key without stopping at the first fault: the strict
// reader (strategy.h) throws the first fault, `check` reports all of them.
//
// Out: the Strategy as far as it could be read (a faulty key keeps its default), the faults with
// their rule ids (strategy rules S112-S115, S321), and where each key stood.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libplan/base/json_tree.h"
#include "libplan/strategy/strategy.h"

namespace plan {

// Nesting and length that are accepted in a strategy list.
inline constexpr JsonLimits kStrategyListLimits{32, std::int64_t{16} << 20};

struct KeyFault {
  std::string rule;
  std::string key;
  TextPosition position;
  std::string message;  // required and found
  std::string fix;
};

struct EntryReading {
  Strategy strategy;
  std::vector<KeyFault> faults;                   // in the order of the text, missing keys last
  std::map<std::string, TextPosition> positions;  // of the value of each known key
  std::set<std::string> given;                    // known keys that are present and not null
  TextPosition position;                          // of the entry

  // Present, not null, and without a fault.
  bool gives(const std::string& key) const;
  // A rule that reads the key can be checked: it is absent with a default, or well given.
  bool usable(const std::string& key) const;
};

// `entry` must be an object.
EntryReading read_strategy_entry(const JsonNode& entry);

// Canonical JSON of a tree: keys sorted by bytes, no blanks. Numbers keep their literal.
std::string canonical_json(const JsonNode& node);

}  // namespace plan
