#include "libplan/strategy/strategy.h"

#include <algorithm>
#include <map>

#include "libplan/base/error.h"
#include "libplan/base/json_tree.h"
#include "libplan/strategy/entry_reader.h"

namespace plan {
namespace {

std::string place_in(const std::string& source_name, const std::string& pointer,
                     TextPosition position) {
  return source_name + ":" + pointer + " (line " + std::to_string(position.line) + ", column " +
         std::to_string(position.column) + ")";
}

Strategy read_entry(const JsonCursor& entry, const std::string& source_name) {
  if (!entry.is(JsonKind::Object)) {
    entry.fail("expected an object with one strategy, found " + describe(entry.node()));
  }
  EntryReading reading = read_strategy_entry(entry.node());
  if (!reading.faults.empty()) {
    const KeyFault& fault = reading.faults.front();
    const bool missing = fault.rule == "S113";
    throw Error(ErrorCode::BadInput, fault.message + "; " + fault.fix,
                place_in(source_name, entry.pointer() + (missing ? "" : pointer_step(fault.key)),
                         fault.position));
  }
  return std::move(reading.strategy);
}

std::string list_names(const std::vector<Strategy>& list) {
  constexpr std::size_t kMost = 20;
  std::string text;
  for (std::size_t i = 0; i < list.size() && i < kMost; ++i) {
    text += i == 0 ? "" : ", ";
    text += list[i].name.empty() ? "(no name)" : list[i].name;
  }
  return text + (list.size() > kMost ? ", ..." : "");
}

}  // namespace

std::vector<Strategy> parse_strategy_list(std::string_view json, const std::string& source_name) {
  const JsonDocument document = parse_json(json, source_name, kStrategyListLimits);
  const JsonCursor root = JsonCursor::root(document);
  if (!root.is(JsonKind::Array)) {
    root.fail("expected a list of strategies, found " + describe(root.node()),
              ErrorCode::Unreadable);
  }
  std::vector<Strategy> list;
  std::map<std::string, std::size_t> index_of_name;
  for (const JsonCursor& entry : root.elements()) {
    Strategy strategy = read_entry(entry, source_name);
    const auto [known, inserted] = index_of_name.try_emplace(strategy.name, list.size());
    if (!inserted && !strategy.name.empty()) {
      entry.at("name").fail("name " + json_quote(strategy.name) + " is also entry " +
                            std::to_string(known->second));
    }
    list.push_back(std::move(strategy));
  }
  if (list.empty()) root.fail("the list has no strategy", ErrorCode::Unreadable);
  return list;
}

const Strategy& find_strategy(const std::vector<Strategy>& list, const std::string& selector) {
  // A name wins over an index, so that a name of digits can be reached at all.
  std::vector<std::string> names;
  for (const Strategy& strategy : list) {
    if (!strategy.name.empty() && strategy.name == selector) return strategy;
    names.push_back(strategy.name);
  }
  const bool digits =
      !selector.empty() && selector.size() <= 9 &&
      std::all_of(selector.begin(), selector.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (digits && std::stoull(selector) < list.size()) return list[std::stoull(selector)];
  const std::string near = nearest_word(selector, names);
  throw Error(ErrorCode::BadInput,
              "no strategy " + json_quote(selector) + "; the list has 0.." +
                  std::to_string(static_cast<std::int64_t>(list.size()) - 1) + ": " +
                  list_names(list) +
                  (near.empty() ? "" : "; the nearest name is " + json_quote(near)));
}

}  // namespace plan
