// Findings as text for people and for the tools that read them in CI.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libplan/strategy/check.h"

namespace plan::check {

enum class Format : std::uint8_t {
  Text,    // file:line:column: severity: message [rule], as compilers write it
  Json,    // {"diagnostics": [...]}
  Sarif,   // SARIF 2.1.0
  Junit,   // one test case per finding; errors and warnings are failures
  Github,  // workflow commands: ::error file=...::message
};

// "text", "json", "sarif", "junit", "github".
std::optional<Format> format_from_name(std::string_view name);

// `source_name` is the file the findings are about. Ends with a line break.
std::string format_findings(const std::vector<Diagnostic>& findings, const std::string& source_name,
                            Format format);

// One line on what a rule is about; empty for an unknown id.
std::string_view summary_of_rule(std::string_view rule);

}  // namespace plan::check
