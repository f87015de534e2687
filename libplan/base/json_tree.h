// A JSON text read into a tree that remembers where each value stood, and typed access whose errors
// carry file, JSON pointer, line and column, what was required and what was found.
//
// Parsing is nlohmann/json's SAX parser; no type of that library shows here. All readers of JSON in
// libplan go through this file.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libplan/base/error.h"

namespace plan {

struct TextPosition {
  std::int32_t line = 1;    // 1-based
  std::int32_t column = 1;  // 1-based, in bytes
};

enum class JsonKind : std::uint8_t { Null, Bool, Integer, BigInteger, Real, String, Array, Object };

// "an integer", "the string \"8\"", "an object": for messages of the form "expected ..., found
// ...".
struct JsonNode;
std::string describe(const JsonNode& node);

struct JsonNode {
  JsonKind kind = JsonKind::Null;
  bool boolean = false;
  std::int64_t integer = 0;        // Integer: a literal without fraction or exponent that fits
  std::string text;                // String: the value; BigInteger and Real: the literal
  std::vector<JsonNode> elements;  // Array: the elements; Object: the values, in text order
  std::vector<std::string> keys;   // Object: one per value
  TextPosition position;           // of the value
  std::vector<TextPosition> key_positions;

  const JsonNode* find(std::string_view key) const;  // the last value of that key, or null
};

struct JsonDuplicateKey {
  std::string pointer;
  TextPosition first;
  TextPosition second;
};

struct JsonLimits {
  std::int32_t max_depth = 64;
  std::int64_t max_bytes = std::int64_t{4} << 30;
};

struct JsonDocument {
  std::string source_name;
  JsonNode root;
  std::vector<JsonDuplicateKey> duplicate_keys;
  bool has_byte_order_mark = false;
};

class JsonCursor;

// Lets a reader take the elements of one large array (named by its JSON pointer) one by one as they
// are parsed: each is handed over, then dropped, so that the whole tree is never held. The array is
// left empty in the document.
struct JsonStream {
  std::string array_pointer;
  std::function<void(const JsonCursor&)> on_element;
};

// Throws Error(Unreadable) for text that is no RFC 8259 JSON in UTF-8, or beyond the limits.
// Duplicate keys are only recorded here; JsonCursor::root refuses them.
JsonDocument parse_json(std::string_view text, const std::string& source_name,
                        const JsonLimits& limits = {});

// As above; duplicate keys inside streamed elements are recorded like all others, but an element is
// handed over whether or not it has some, so JsonCursor::root must be called before it is trusted.
JsonDocument parse_json(std::string_view text, const std::string& source_name,
                        const JsonLimits& limits, const JsonStream& stream);

// The tree as JSON without any white space: keys in their order, numbers as they were written (an
// integer that fits 64 bits: in decimal), strings as json_quote writes them.
enum class JsonKeyOrder : std::uint8_t { AsWritten, Sorted };
std::string to_compact_json(const JsonNode& node, JsonKeyOrder keys = JsonKeyOrder::AsWritten);

// RFC 6901: "~" and "/" in a key are escaped.
std::string pointer_step(std::string_view key);

// "abc" with the quotes and escapes of a JSON string.
std::string json_quote(std::string_view text);

// True for well-formed UTF-8 (RFC 3629): what a JSON string can carry without loss.
bool is_utf8(std::string_view text);

// A place in a document. All failures are Error(BadInput) with place
// "file:/json/pointer (line L, column C)".
class JsonCursor {
 public:
  // Refuses duplicate keys anywhere in the document.
  static JsonCursor root(const JsonDocument& document);
  // A node that stands at `pointer`, for the elements of a JsonStream.
  static JsonCursor at_node(const JsonDocument& document, const JsonNode& node,
                            std::string pointer);

  const JsonNode& node() const { return *node_; }
  const std::string& pointer() const { return pointer_; }
  bool is_null() const { return node_->kind == JsonKind::Null; }
  bool is(JsonKind kind) const { return node_->kind == kind; }

  // Checks that this is an object with no key outside `known`; names the nearest known key
  // otherwise.
  void expect_object(std::initializer_list<std::string_view> known) const;
  JsonCursor at(std::string_view key) const;                        // required key
  std::optional<JsonCursor> find(std::string_view key) const;       // absent or null: nullopt
  std::vector<JsonCursor> elements() const;                         // array
  std::vector<std::pair<std::string, JsonCursor>> members() const;  // object

  std::int64_t as_int64(std::int64_t min, std::int64_t max) const;
  std::int32_t as_int32(std::int32_t min, std::int32_t max) const;
  double as_double() const;  // any number
  bool as_bool() const;
  const std::string& as_string() const;

  [[noreturn]] void fail(const std::string& message, ErrorCode code = ErrorCode::BadInput) const;

 private:
  JsonCursor(const JsonDocument& document, const JsonNode& node, std::string pointer)
      : document_(&document), node_(&node), pointer_(std::move(pointer)) {}

  const JsonDocument* document_;
  const JsonNode* node_;
  std::string pointer_;
};

// The entry of `known` with the smallest edit distance to `word`; empty if none is near.
std::string nearest_word(std::string_view word, const std::vector<std::string>& known);

}  // namespace plan
