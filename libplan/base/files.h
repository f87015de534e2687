// Whole files in and out.
#pragma once

#include <string>
#include <string_view>

namespace plan {

// Reads a whole file; Error(Unreadable) names it and the system's reason.
std::string read_file(const std::string& path);

// Writes to a temporary file beside `path`, then renames; nothing half-written is left behind.
// Error(Io). "-" writes to standard output.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace plan
