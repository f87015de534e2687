#include "libplan/base/json_tree.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

namespace plan {
namespace {

// Walks the text for nlohmann's lexer and lets the handler see how far it has read.
class CountingIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator() = default;
  CountingIterator(const char* at, const char* begin, std::size_t* consumed)
      : at_(at), begin_(begin), consumed_(consumed) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    if (consumed_ != nullptr) *consumed_ = static_cast<std::size_t>(at_ - begin_);
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) {
    return a.at_ == b.at_;
  }

 private:
  const char* at_ = nullptr;
  const char* begin_ = nullptr;
  std::size_t* consumed_ = nullptr;
};

std::string position_text(TextPosition position) {
  return "line " + std::to_string(position.line) + ", column " + std::to_string(position.column);
}

// Builds the tree from nlohmann's events. Token starts are found by scanning on from the end of the
// token before, since the lexer only tells where it stands after a token.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(std::string_view text, const JsonLimits& limits, const JsonStream& stream,
              JsonDocument& document)
      : text_(text), limits_(limits), stream_(stream), document_(document) {}

  std::size_t* consumed() { return &consumed_; }
  const std::string& error() const { return error_; }

  bool null() override { return add(JsonNode{}); }
  bool boolean(bool value) override {
    JsonNode node;
    node.kind = JsonKind::Bool;
    node.boolean = value;
    return add(std::move(node));
  }
  bool number_integer(number_integer_t value) override { return add_integer(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= static_cast<number_unsigned_t>(INT64_MAX)) {
      return add_integer(static_cast<std::int64_t>(value));
    }
    JsonNode node;
    node.kind = JsonKind::BigInteger;
    node.text = std::to_string(value);
    return add(std::move(node));
  }
  bool number_float(number_float_t, const string_t& literal) override {
    JsonNode node;
    const bool integral = literal.find_first_of(".eE") == std::string::npos;
    node.kind = integral ? JsonKind::BigInteger : JsonKind::Real;
    node.text = literal;
    return add(std::move(node));
  }
  bool string(string_t& value) override {
    JsonNode node;
    node.kind = JsonKind::String;
    node.text = std::move(value);
    return add(std::move(node));
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(JsonKind::Object); }
  bool start_array(std::size_t) override { return open(JsonKind::Array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    Frame& frame = stack_.back();
    const TextPosition position = next_token();
    const auto [known, inserted] = frame.first_seen.try_emplace(value, position);
    if (!inserted) {
      document_.duplicate_keys.push_back(
          {frame.pointer + pointer_step(value), known->second, position});
    }
    frame.node->keys.push_back(value);
    frame.node->key_positions.push_back(position);
    return true;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::json::exception& exception) override {
    error_ = exception.what();
    const std::size_t prefix = error_.find("] ");
    if (prefix != std::string::npos) error_ = error_.substr(prefix + 2);
    return false;
  }

 private:
  struct Frame {
    std::unique_ptr<JsonNode> node;
    std::string pointer;
    std::unordered_map<std::string, TextPosition> first_seen;
    bool streamed = false;
    std::size_t num_streamed = 0;  // elements handed over and dropped
  };

  TextPosition next_token() {
    std::size_t at = token_end_;
    while (at < text_.size() &&
           std::string_view(" \t\r\n,:").find(text_[at]) != std::string::npos) {
      advance(at++);
    }
    const TextPosition position{line_, static_cast<std::int32_t>(at - line_start_) + 1};
    for (; at < consumed_; ++at) advance(at);
    token_end_ = std::max(token_end_, consumed_);
    return position;
  }

  void advance(std::size_t at) {
    if (text_[at] == '\n') {
      ++line_;
      line_start_ = at + 1;
    }
  }

  std::string child_pointer() const {
    if (stack_.empty()) return {};
    const Frame& frame = stack_.back();
    if (frame.node->kind == JsonKind::Object)
      return frame.pointer + pointer_step(frame.node->keys.back());
    return frame.pointer + "/" + std::to_string(frame.num_streamed + frame.node->elements.size());
  }

  bool add_integer(std::int64_t value) {
    JsonNode node;
    node.kind = JsonKind::Integer;
    node.integer = value;
    return add(std::move(node));
  }

  bool add(JsonNode node) {
    node.position = next_token();
    place(std::move(node));
    return true;
  }

  void place(JsonNode node) {
    if (stack_.empty()) {
      document_.root = std::move(node);
    } else if (Frame& frame = stack_.back(); frame.streamed) {
      const std::string pointer = child_pointer();
      ++frame.num_streamed;
      stream_.on_element(JsonCursor::at_node(document_, node, pointer));
    } else {
      frame.node->elements.push_back(std::move(node));
    }
  }

  bool open(JsonKind kind) {
    std::string pointer = child_pointer();
    auto node = std::make_unique<JsonNode>();
    node->kind = kind;
    node->position = next_token();
    if (static_cast<std::int32_t>(stack_.size()) >= limits_.max_depth) {
      error_ = "nesting deeper than " + std::to_string(limits_.max_depth) + " at " +
               position_text(node->position);
      return false;
    }
    const bool streamed = kind == JsonKind::Array && stream_.on_element != nullptr &&
                          pointer == stream_.array_pointer;
    stack_.push_back({std::move(node), std::move(pointer), {}, streamed});
    return true;
  }

  bool close() {
    next_token();
    std::unique_ptr<JsonNode> node = std::move(stack_.back().node);
    stack_.pop_back();
    place(std::move(*node));
    return true;
  }

  std::string_view text_;
  const JsonLimits& limits_;
  const JsonStream& stream_;
  JsonDocument& document_;
  std::vector<Frame> stack_;
  std::string error_;
  std::size_t consumed_ = 0;
  std::size_t token_end_ = 0;
  std::size_t line_start_ = 0;
  std::int32_t line_ = 1;
};

}  // namespace

const JsonNode* JsonNode::find(std::string_view key) const {
  for (std::size_t i = keys.size(); i-- > 0;) {
    if (keys[i] == key) return &elements[i];
  }
  return nullptr;
}

JsonDocument parse_json(std::string_view text, const std::string& source_name,
                        const JsonLimits& limits) {
  return parse_json(text, source_name, limits, JsonStream{});
}

JsonDocument parse_json(std::string_view text, const std::string& source_name,
                        const JsonLimits& limits, const JsonStream& stream) {
  JsonDocument document;
  document.source_name = source_name;
  if (static_cast<std::int64_t>(text.size()) > limits.max_bytes) {
    throw Error(ErrorCode::Unreadable,
                "text of " + std::to_string(text.size()) + " bytes, at most " +
                    std::to_string(limits.max_bytes) + " are read",
                source_name);
  }
  if (text.starts_with("\xEF\xBB\xBF")) {
    document.has_byte_order_mark = true;
    text.remove_prefix(3);
  }
  TreeBuilder builder(text, limits, stream, document);
  const char* end = text.data() + text.size();
  const bool parsed =
      nlohmann::json::sax_parse(CountingIterator(text.data(), text.data(), builder.consumed()),
                                CountingIterator(end, text.data(), nullptr), &builder);
  if (!parsed) throw Error(ErrorCode::Unreadable, builder.error(), source_name);
  return document;
}

std::string pointer_step(std::string_view key) {
  std::string step = "/";
  for (const char c : key) {
    if (c == '~') {
      step += "~0";
    } else if (c == '/') {
      step += "~1";
    } else {
      step += c;
    }
  }
  return step;
}

std::string json_quote(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool is_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char lead = byte(i++);
    if (lead < 0x80) continue;
    if (lead < 0xC2 || lead > 0xF4) return false;
    const std::size_t more = lead < 0xE0 ? 1U : lead < 0xF0 ? 2U : 3U;
    if (text.size() - i < more) return false;
    // The second byte excludes overlong forms, surrogates and what lies above U+10FFFF.
    const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (byte(i) < low || byte(i) > high) return false;
    for (std::size_t k = 1; k < more; ++k) {
      if (byte(i + k) < 0x80 || byte(i + k) > 0xBF) return false;
    }
    i += more;
  }
  return true;
}

namespace {

void append_compact(const JsonNode& node, JsonKeyOrder keys, std::string& text);

void append_children(const JsonNode& node, JsonKeyOrder keys, std::string& text) {
  std::vector<std::size_t> order(node.elements.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool object = node.kind == JsonKind::Object;
  if (object && keys == JsonKeyOrder::Sorted) {
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return node.keys[a] < node.keys[b]; });
  }
  text += object ? '{' : '[';
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0) text += ',';
    if (object) text += json_quote(node.keys[order[i]]) + ":";
    append_compact(node.elements[order[i]], keys, text);
  }
  text += object ? '}' : ']';
}

void append_compact(const JsonNode& node, JsonKeyOrder keys, std::string& text) {
  switch (node.kind) {
    case JsonKind::Null: text += "null"; return;
    case JsonKind::Bool: text += node.boolean ? "true" : "false"; return;
    case JsonKind::Integer: text += std::to_string(node.integer); return;
    case JsonKind::BigInteger:
    case JsonKind::Real: text += node.text; return;
    case JsonKind::String: text += json_quote(node.text); return;
    case JsonKind::Array:
    case JsonKind::Object: append_children(node, keys, text); return;
  }
}

}  // namespace

std::string to_compact_json(const JsonNode& node, JsonKeyOrder keys) {
  std::string text;
  append_compact(node, keys, text);
  return text;
}

std::string describe(const JsonNode& node) {
  switch (node.kind) {
    case JsonKind::Null: return "null";
    case JsonKind::Bool: return node.boolean ? "true" : "false";
    case JsonKind::Integer: return std::to_string(node.integer);
    case JsonKind::BigInteger:
    case JsonKind::Real: return node.text;
    case JsonKind::String: return "the string " + json_quote(node.text.substr(0, 80));
    case JsonKind::Array: return "a list";
    case JsonKind::Object: return "an object";
  }
  return "a value";
}

JsonCursor JsonCursor::root(const JsonDocument& document) {
  JsonCursor cursor(document, document.root, "");
  if (!document.duplicate_keys.empty()) {
    const JsonDuplicateKey& duplicate = document.duplicate_keys.front();
    throw Error(
        ErrorCode::BadInput,
        "the key is given twice, first at " + position_text(duplicate.first) + "; keep one of them",
        document.source_name + ":" + duplicate.pointer + " (" + position_text(duplicate.second) +
            ")");
  }
  return cursor;
}

JsonCursor JsonCursor::at_node(const JsonDocument& document, const JsonNode& node,
                               std::string pointer) {
  return JsonCursor(document, node, std::move(pointer));
}

void JsonCursor::fail(const std::string& message, ErrorCode code) const {
  throw Error(
      code, message,
      document_->source_name + ":" + pointer_ + " (" + position_text(node_->position) + ")");
}

void JsonCursor::expect_object(std::initializer_list<std::string_view> known) const {
  if (node_->kind != JsonKind::Object) fail("expected an object, found " + describe(*node_));
  for (std::size_t i = 0; i < node_->keys.size(); ++i) {
    const std::string& key = node_->keys[i];
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::vector<std::string> words(known.begin(), known.end());
    const std::string near = nearest_word(key, words);
    std::string message = "unknown key " + json_quote(key);
    message += near.empty() ? "" : "; the nearest known key is " + json_quote(near);
    throw Error(ErrorCode::BadInput, message,
                document_->source_name + ":" + pointer_ + pointer_step(key) + " (" +
                    position_text(node_->key_positions[i]) + ")");
  }
}

std::optional<JsonCursor> JsonCursor::find(std::string_view key) const {
  if (node_->kind != JsonKind::Object) fail("expected an object, found " + describe(*node_));
  const JsonNode* child = node_->find(key);
  if (child == nullptr || child->kind == JsonKind::Null) return std::nullopt;
  return JsonCursor(*document_, *child, pointer_ + pointer_step(key));
}

JsonCursor JsonCursor::at(std::string_view key) const {
  std::optional<JsonCursor> child = find(key);
  if (!child) fail("required key " + json_quote(key) + " is missing");
  return *std::move(child);
}

std::vector<JsonCursor> JsonCursor::elements() const {
  if (node_->kind != JsonKind::Array) fail("expected a list, found " + describe(*node_));
  std::vector<JsonCursor> cursors;
  cursors.reserve(node_->elements.size());
  for (std::size_t i = 0; i < node_->elements.size(); ++i) {
    cursors.push_back(
        JsonCursor(*document_, node_->elements[i], pointer_ + "/" + std::to_string(i)));
  }
  return cursors;
}

std::vector<std::pair<std::string, JsonCursor>> JsonCursor::members() const {
  if (node_->kind != JsonKind::Object) fail("expected an object, found " + describe(*node_));
  std::vector<std::pair<std::string, JsonCursor>> members;
  for (std::size_t i = 0; i < node_->keys.size(); ++i) {
    members.emplace_back(node_->keys[i], JsonCursor(*document_, node_->elements[i],
                                                    pointer_ + pointer_step(node_->keys[i])));
  }
  return members;
}

std::int64_t JsonCursor::as_int64(std::int64_t min, std::int64_t max) const {
  const bool whole = node_->kind == JsonKind::Integer || node_->kind == JsonKind::BigInteger;
  if (!whole) fail("expected an integer, found " + describe(*node_));
  if (node_->kind == JsonKind::BigInteger || node_->integer < min || node_->integer > max) {
    fail("expected " + std::to_string(min) + " to " + std::to_string(max) + ", found " +
         describe(*node_));
  }
  return node_->integer;
}

std::int32_t JsonCursor::as_int32(std::int32_t min, std::int32_t max) const {
  return static_cast<std::int32_t>(as_int64(min, max));
}

double JsonCursor::as_double() const {
  if (node_->kind == JsonKind::Integer) return static_cast<double>(node_->integer);
  if (node_->kind != JsonKind::Real && node_->kind != JsonKind::BigInteger) {
    fail("expected a number, found " + describe(*node_));
  }
  return std::strtod(node_->text.c_str(), nullptr);
}

bool JsonCursor::as_bool() const {
  if (node_->kind != JsonKind::Bool) fail("expected true or false, found " + describe(*node_));
  return node_->boolean;
}

const std::string& JsonCursor::as_string() const {
  if (node_->kind != JsonKind::String) fail("expected a string, found " + describe(*node_));
  return node_->text;
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = word.size() / 2 + 1;
  for (const std::string& candidate : known) {
    std::vector<std::size_t> row(candidate.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j < row.size(); ++j) {
        const std::size_t substitute = diagonal + (word[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace plan
