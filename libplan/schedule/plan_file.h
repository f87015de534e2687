// Plans in files: the form is chosen by suffix when writing and by content when reading.
#pragma once

#include <string>

#include "libplan/schedule/ir.h"

namespace plan {

// JSON or the binary form. Errors name the file.
ir::Schedule read_plan(const std::string& path);

// ".json" is JSON, ".fb" the binary form, "-" JSON on standard output; Error(Usage) for another
// suffix. Nothing half-written is left behind.
void write_plan(const ir::Schedule& schedule, const std::string& path);

}  // namespace plan
