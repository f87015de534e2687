#include "libplan/strategy/check.h"

#include <algorithm>
#include <tuple>

#include "libplan/strategy/check_entry.h"
#include "libplan/strategy/check_text.h"

namespace plan::check {
namespace {

void check_entry(EntryChecker& c) {
  check_grid(c);
  check_entry_topology(c);
  check_pipeline(c);
  check_attention(c);
  check_experts(c);
  check_optimizer(c);
  check_memory(c);
  if (c.options.compat_elastic) check_compat(c);
}

}  // namespace

std::string_view name_of(Severity severity) {
  switch (severity) {
    case Severity::Note: return "note";
    case Severity::Warning: return "warning";
    case Severity::Error: break;
  }
  return "error";
}

std::vector<Diagnostic> check(std::string_view text, const std::string& source_name,
                              const ModelFacts& facts, const Options& options) {
  std::vector<Diagnostic> findings;
  std::vector<Entry> entries;
  if (!read_entries(text, source_name, options, entries, findings)) return findings;
  check_names(entries, facts, options, findings);
  check_model(facts, findings);
  for (Entry& entry : entries) {
    // A mesh has none of Megatron's sizes; its placements are checked where they are resolved.
    if (!entry.checkable || entry.reading.given.contains("mesh")) continue;
    EntryChecker c(entry, facts, options, findings);
    check_entry(c);
  }
  check_same_entries(entries, facts, options, findings);
  check_switches(entries, facts, options, findings);
  std::stable_sort(findings.begin(), findings.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::tie(a.line, a.column, a.rule) < std::tie(b.line, b.column, b.rule);
  });
  return findings;
}

int exit_status(const std::vector<Diagnostic>& diagnostics, bool strict) {
  int status = 0;
  for (const Diagnostic& found : diagnostics) {
    const bool unreadable = found.rule == "S101" || found.rule == "S102" || found.rule == "S103" ||
                            found.rule == "S104";
    if (unreadable) return 2;
    if (found.severity == Severity::Error) status = 1;
    if (found.severity == Severity::Warning && strict) status = 1;
  }
  return status;
}

}  // namespace plan::check
