// The JSON form of a Schedule (schemas/schedule.schema.json): for people, reviews and text diffs.
//
// Every storage, piece, op and slice stands on a line of its own; words are spelled out, units are
// part of the names, and what has its default value is left out. Equal contents give equal bytes.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include "libplan/schedule/ir.h"

namespace plan {

// Validates, then writes as it walks; never holds the whole text. Error(BadInput) for a schedule
// that validate() or parse_request() refuses, Error(Io) if the stream fails.
void write_json(const ir::Schedule& schedule, std::ostream& stream);

// The schedule in canonical arrangement, validated. Error(Unreadable) for broken JSON,
// Error(BadInput) for unknown keys, another version, wrong values, or a digest that does not match
// (an edited or damaged plan). The tree of one rank's program is held at a time.
ir::Schedule read_json(std::string_view text, const std::string& source_name);

}  // namespace plan
