// The brute-force judge of the checker: expands everything to bytes, runs all windows over all
// ranks, and looks at every target element. Written from the IR's definition, with nothing of
// libplan/verify in it.
#pragma once

#include <string>

#include "libplan/layout/layout.h"
#include "libplan/schedule/ir.h"

namespace plan::verify::testing {

// Empty if the schedule does what it must; else the first thing that went wrong.
std::string interpret(const ir::Schedule& schedule);

}  // namespace plan::verify::testing
