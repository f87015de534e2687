// Kinds of state, element types and memory kinds as JSON. A kind of state is a record
// {"name", "dtype"?, "follows": "param" | "main_param", "memory": "device" | "host" | "file"}.
#pragma once

#include <string>

#include "libplan/base/json_tree.h"
#include "libplan/model/model.h"

namespace plan {

std::string to_json(const StateKind& kind);
StateKind read_state_kind(const JsonCursor& record);

// In quotes.
std::string to_json(MemoryKind memory);
MemoryKind read_memory_kind(const JsonCursor& cursor);

Dtype read_dtype(const JsonCursor& cursor);

}  // namespace plan
