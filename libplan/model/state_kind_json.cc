#include "libplan/model/state_kind_json.h"

#include <array>

#include "libplan/base/json_words.h"

namespace plan {
namespace {

constexpr std::array kFollows = {
    Word<StateFollows>{"param", StateFollows::Param},
    Word<StateFollows>{"main_param", StateFollows::MainParam},
};
constexpr std::array kMemoryKinds = {
    Word<MemoryKind>{"device", MemoryKind::Device},
    Word<MemoryKind>{"host", MemoryKind::Host},
    Word<MemoryKind>{"file", MemoryKind::File},
};

}  // namespace

std::string to_json(const StateKind& kind) {
  std::string text = "{\"name\": " + json_quote(kind.name);
  if (kind.dtype) text += ", \"dtype\": " + json_quote(name_of(*kind.dtype));
  text += ", \"follows\": " + word_of(kFollows, kind.follows);
  return text + ", \"memory\": " + to_json(kind.memory) + "}";
}

StateKind read_state_kind(const JsonCursor& record) {
  record.expect_object({"name", "dtype", "follows", "memory"});
  StateKind kind;
  const JsonCursor name = record.at("name");
  kind.name = name.as_string();
  if (kind.name.empty()) name.fail("a kind of state needs a name");
  if (const std::optional<JsonCursor> dtype = record.find("dtype")) kind.dtype = read_dtype(*dtype);
  if (const std::optional<JsonCursor> follows = record.find("follows")) {
    kind.follows = read_word(*follows, kFollows);
  }
  if (const std::optional<JsonCursor> memory = record.find("memory")) {
    kind.memory = read_memory_kind(*memory);
  }
  return kind;
}

std::string to_json(MemoryKind memory) { return word_of(kMemoryKinds, memory); }

MemoryKind read_memory_kind(const JsonCursor& cursor) { return read_word(cursor, kMemoryKinds); }

Dtype read_dtype(const JsonCursor& cursor) {
  const std::optional<Dtype> dtype = dtype_from_name(cursor.as_string());
  if (!dtype) {
    cursor.fail("expected a dtype such as bf16, fp32 or fp8_e4m3, found " +
                describe(cursor.node()));
  }
  return *dtype;
}

}  // namespace plan
