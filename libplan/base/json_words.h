// Enumerations as words in JSON: one table per enumeration serves reading and writing.
#pragma once

#include <string>
#include <string_view>

#include "libplan/base/error.h"
#include "libplan/base/json_tree.h"

namespace plan {

template <class Enum>
struct Word {
  std::string_view text;
  Enum value;
};

// The value of the string at the cursor; the error lists the words there are.
template <class Words>
auto read_word(const JsonCursor& cursor, const Words& words) {
  std::string known;
  for (const auto& word : words) {
    if (cursor.as_string() == word.text) return word.value;
    known += (known.empty() ? "" : ", ") + std::string(word.text);
  }
  cursor.fail("expected one of " + known + ", found " + describe(cursor.node()));
}

// The word of the value, in quotes.
template <class Words, class Value>
std::string word_of(const Words& words, Value value) {
  for (const auto& word : words) {
    if (word.value == value) return json_quote(word.text);
  }
  throw InternalError("an enumeration has a value without a word");
}

}  // namespace plan
