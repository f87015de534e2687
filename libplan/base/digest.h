// SHA-256 of bytes, as 64 lower-case hex digits. Proves integrity, not origin.
#pragma once

#include <string>
#include <string_view>

namespace plan {

std::string sha256_hex(std::string_view bytes);

}  // namespace plan
