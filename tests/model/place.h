// The text of an error with "(line L, column C)" left out: base/json_tree_test checks positions.
#pragma once

#include <regex>
#include <string>

namespace plan {

inline std::string without_position(const std::string& message) {
  return std::regex_replace(message, std::regex(" \\(line \\d+, column \\d+\\)"), "");
}

}  // namespace plan
