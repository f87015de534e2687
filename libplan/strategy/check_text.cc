// S1xx: the text, the list, the keys of each entry and their values.
#include "libplan/strategy/check_text.h"

#include <algorithm>
#include <map>

#include "libplan/base/error.h"
#include "libplan/base/json_tree.h"

namespace plan::check {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

Diagnostic about_text(const char* rule, Severity severity, std::string message, std::string fix) {
  Diagnostic found;
  found.rule = rule;
  found.severity = severity;
  found.message = std::move(message);
  found.fix = std::move(fix);
  return found;
}

// The number after `word` in a message of the JSON reader; 1 if there is none.
std::int32_t number_after(const std::string& message, std::string_view word) {
  const std::size_t at = message.find(word);
  if (at == std::string::npos) return 1;
  std::int64_t number = 0;
  for (std::size_t i = at + word.size(); i < message.size() && is_digit(message[i]); ++i) {
    number = std::min<std::int64_t>(number * 10 + (message[i] - '0'), INT32_MAX);
  }
  return static_cast<std::int32_t>(std::max<std::int64_t>(number, 1));
}

// S101, S102. The JSON reader says where it stopped only in words.
Diagnostic unreadable(const std::string& message) {
  const bool too_deep = message.starts_with("nesting deeper than");
  Diagnostic found =
      too_deep ? about_text("S102", Severity::Error, message, "a strategy list needs 4 levels")
               : about_text("S101", Severity::Error, message,
                            "write RFC 8259 JSON in UTF-8: no trailing comma, comment, NaN or "
                            "single quotes");
  found.line = number_after(message, "line ");
  found.column = number_after(message, "column ");
  return found;
}

// "/3/world_size": 3.
std::optional<std::int32_t> entry_of_pointer(const std::string& pointer) {
  const std::size_t end = std::min(pointer.find('/', 1), pointer.size());
  if (end < 2 || end > 10) return {};
  const std::string digits = pointer.substr(1, end - 1);
  if (!std::all_of(digits.begin(), digits.end(), is_digit)) return {};
  return std::stoi(digits);
}

std::string at_line(std::int32_t line) { return "at line " + std::to_string(line); }

// S105 for each duplicate key; the entries that hold one are given up.
void report_duplicate_keys(const JsonDocument& document, std::vector<Entry>& entries,
                           std::vector<Diagnostic>& findings) {
  for (const JsonDuplicateKey& duplicate : document.duplicate_keys) {
    const std::string key = duplicate.pointer.substr(duplicate.pointer.rfind('/') + 1);
    Diagnostic found =
        about_text("S105", Severity::Error,
                   json_quote(key) + " is given twice (" + at_line(duplicate.first.line) + " and " +
                       at_line(duplicate.second.line) + "), expected once",
                   "keep one");
    found.pointer = duplicate.pointer;
    found.line = duplicate.second.line;
    found.column = duplicate.second.column;
    const std::optional<std::int32_t> index = entry_of_pointer(duplicate.pointer);
    if (index && *index < static_cast<std::int32_t>(entries.size())) {
      Entry& entry = entries[static_cast<std::size_t>(*index)];
      entry.checkable = false;
      entry.has_error = true;
      found.entry = *index;
      found.name = entry.name;
    }
    findings.push_back(std::move(found));
  }
}

Entry read_entry(const JsonNode& node, std::int32_t index) {
  Entry entry;
  entry.index = index;
  if (node.kind != JsonKind::Object) {
    entry.checkable = false;
    entry.has_error = true;
    entry.reading.position = node.position;
    return entry;
  }
  entry.reading = read_strategy_entry(node);
  entry.name = entry.reading.strategy.name;
  return entry;
}

}  // namespace

bool read_entries(std::string_view text, const std::string& source_name, const Options& options,
                  std::vector<Entry>& entries, std::vector<Diagnostic>& findings) {
  if (static_cast<std::int64_t>(text.size()) > kStrategyListLimits.max_bytes) {
    findings.push_back(about_text("S102", Severity::Error,
                                  "the text has " + num(static_cast<std::int64_t>(text.size())) +
                                      " bytes, expected at most " +
                                      num(kStrategyListLimits.max_bytes),
                                  "split the list"));
    return false;
  }
  JsonDocument document;
  try {
    document = parse_json(text, source_name, kStrategyListLimits);
  } catch (const Error& error) {
    findings.push_back(unreadable(error.message()));
    return false;
  }
  if (document.has_byte_order_mark) {
    findings.push_back(about_text("S106", Severity::Note, "byte order mark skipped", "drop it"));
  }
  const JsonNode& root = document.root;
  if (root.kind != JsonKind::Array) {
    findings.push_back(about_text("S103", Severity::Error,
                                  "expected a list of strategies, found " + describe(root),
                                  "wrap it in [ ]"));
    return false;
  }
  if (root.elements.empty()) {
    findings.push_back(about_text("S104", Severity::Error,
                                  "expected at least one strategy, the list has no strategy",
                                  "add a strategy"));
    return false;
  }
  for (const JsonNode& node : root.elements) {
    entries.push_back(read_entry(node, static_cast<std::int32_t>(entries.size())));
  }
  report_duplicate_keys(document, entries, findings);
  const ModelFacts no_model;
  for (Entry& entry : entries) {
    EntryChecker c(entry, no_model, options, findings);
    const JsonNode& node = root.elements[static_cast<std::size_t>(entry.index)];
    if (node.kind != JsonKind::Object) {
      c.error("S111", kAll, "",
              "entry " + num(entry.index) + " is " + describe(node) + ", expected an object",
              "write an object with world_size, tensor_ and pipeline_model_parallel_size");
    }
    if (!entry.checkable) continue;
    for (const KeyFault& fault : entry.reading.faults) {
      if (fault.rule == "S321") continue;  // depends on the version: check_pipeline
      c.error(fault.rule.c_str(), kAll, fault.key, fault.message, fault.fix);
      if (fault.rule == "S113") continue;  // stands where the entry stands
      findings.back().line = fault.position.line;
      findings.back().column = fault.position.column;
    }
  }
  return true;
}

void check_names(std::vector<Entry>& entries, const ModelFacts& facts, const Options& options,
                 std::vector<Diagnostic>& findings) {
  std::map<std::string, std::int32_t> first_with_name;
  std::vector<std::string> names;
  for (Entry& entry : entries) {
    if (!entry.checkable || !entry.reading.gives("name")) continue;
    EntryChecker c(entry, facts, options, findings);
    names.push_back(entry.name);
    if (std::all_of(entry.name.begin(), entry.name.end(), is_digit)) {
      c.warning("S108", kAll, "name",
                "name " + quoted(entry.name) + " of entry " + num(entry.index) +
                    " reads as an index, expected a word",
                "give it a letter");
    }
    const auto [known, inserted] = first_with_name.try_emplace(entry.name, entry.index);
    if (!inserted) {
      c.error("S109", kAll, "name",
              "name " + quoted(entry.name) + " is also entry " + num(known->second) +
                  ", expected a name of its own",
              "rename one of them");
    }
  }
  const auto count = static_cast<std::int64_t>(entries.size());
  for (const Selector& selector : options.selectors) {
    const std::string& value = selector.value;
    const bool digits =
        !value.empty() && value.size() <= 9 && std::all_of(value.begin(), value.end(), is_digit);
    if (first_with_name.contains(value) || (digits && std::stoll(value) < count)) continue;
    std::string list;
    for (std::size_t i = 0; i < names.size() && i < 20; ++i)
      list += (i == 0 ? ": " : ", ") + names[i];
    const std::string near = nearest_word(value, names);
    findings.push_back(
        about_text("S107", Severity::Error,
                   selector.option + ": no strategy " + json_quote(value) + "; the list has 0.." +
                       num(count - 1) + list,
                   near.empty() ? "give a name or an index" : "write " + json_quote(near)));
  }
  if (count == 1) {
    findings.push_back(
        about_text("S122", Severity::Note, "one entry only: no switch to check", ""));
  }
}

}  // namespace plan::check
