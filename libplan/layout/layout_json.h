// Layouts as JSON (schemas/layout.schema.json): what `layout --json` prints is also an input, for
// the source and for the target of a switch.
#pragma once

#include <string>
#include <string_view>

#include "libplan/layout/layout.h"

namespace plan {

// The same bytes for equal layouts, one line per storage and shard. Reading it back gives an equal
// layout but for tensors and states that nothing uses.
std::string to_json(const Layout& layout);

// Error(Unreadable) for text that is no JSON, Error(BadInput) with file and JSON pointer for
// anything that does not fit; the result has passed validate().
Layout parse_layout_json(std::string_view json, const std::string& source_name);

}  // namespace plan
