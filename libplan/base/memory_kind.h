// Where a storage lives. Names in JSON: "device", "host", "file".
#pragma once

#include <cstdint>

namespace plan {

enum class MemoryKind : std::uint8_t { Device, Host, File };

}  // namespace plan
