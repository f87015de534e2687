// S101 to S115: from text to entries.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libplan/strategy/check.h"
#include "libplan/strategy/check_entry.h"

namespace plan::check {

// Reads what can be read; false if the text is no list (S101-S104).
bool read_entries(std::string_view text, const std::string& source_name, const Options& options,
                  std::vector<Entry>& entries, std::vector<Diagnostic>& findings);

// S107-S109, S122, over the names of all entries.
void check_names(std::vector<Entry>& entries, const ModelFacts& facts, const Options& options,
                 std::vector<Diagnostic>& findings);

}  // namespace plan::check
