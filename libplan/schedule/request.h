// The request inside a Schedule: one JSON object as compact text (to_compact_json), or empty. The
// text and the tree say the same, so a plan file may hold either.
#pragma once

#include <string>

#include "libplan/base/json_tree.h"

namespace plan {

// Reads a request that is not empty; Error(BadInput) unless it is the compact text of one object
// without duplicate keys.
JsonDocument parse_request(const std::string& request);

}  // namespace plan
