#include "libplan/strategy/pipeline_layout.h"

#include <algorithm>
#include <cstddef>

namespace plan {
namespace {

// A letter of the layout and where it stood in the text, 1-based and in bytes, for messages.
struct Letter {
  char letter;
  std::size_t position;
};
using Letters = std::vector<Letter>;

struct TooLong {};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads `*digits` at `at`; 0 letters if there is none. A count beyond the limit is capped there,
// which makes any expansion with it too long.
std::size_t repeat_length(const Letters& text, std::size_t at, std::int64_t& count) {
  if (at >= text.size() || text[at].letter != '*') return 0;
  std::size_t end = at + 1;
  count = 0;
  for (; end < text.size() && is_digit(text[end].letter); ++end) {
    count = std::min(count * 10 + (text[end].letter - '0'), kMaxLayoutLetters + 1);
  }
  return end == at + 1 ? 0 : end - at;
}

void append_repeated(Letters& out, const Letters& text, std::size_t begin, std::size_t end,
                     std::int64_t count) {
  const auto length = static_cast<std::int64_t>(end - begin);
  if (static_cast<std::int64_t>(out.size()) + length * count > kMaxLayoutLetters) throw TooLong{};
  for (std::int64_t i = 0; i < count; ++i) {
    out.insert(out.end(), text.begin() + static_cast<std::ptrdiff_t>(begin),
               text.begin() + static_cast<std::ptrdiff_t>(end));
  }
}

// `(..)*n`; a group without a count, or with another group inside, stays as it is.
Letters expand_groups(const Letters& text) {
  Letters out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t close = at + 1;
    while (close < text.size() && text[close].letter != ')' && text[close].letter != '(') ++close;
    std::int64_t count = 0;
    const bool group = text[at].letter == '(' && close > at + 1 && close < text.size() &&
                       text[close].letter == ')';
    const std::size_t length = group ? repeat_length(text, close + 1, count) : 0;
    if (length > 0) {
      append_repeated(out, text, at + 1, close, count);
      at = close + 1 + length;
    } else if (text[at].letter == '(') {
      append_repeated(out, text, at, close, 1);
      at = close;
    } else {
      append_repeated(out, text, at, at + 1, 1);
      ++at;
    }
  }
  return out;
}

// `x*n` for a single letter.
Letters expand_letters(const Letters& text) {
  Letters out;
  for (std::size_t at = 0; at < text.size();) {
    std::int64_t count = 1;
    const std::size_t length = repeat_length(text, at + 1, count);
    append_repeated(out, text, at, at + 1, length > 0 ? count : 1);
    at += 1 + length;
  }
  return out;
}

ExpandedLayout expand_string(const JsonNode& node) {
  Letters letters;
  for (std::size_t i = 0; i < node.text.size(); ++i) {
    if (node.text[i] != ',') letters.push_back({node.text[i], i + 1});
  }
  try {
    if (static_cast<std::int64_t>(letters.size()) > kMaxLayoutLetters) throw TooLong{};
    letters = expand_letters(expand_groups(letters));
  } catch (const TooLong&) {
    return LayoutFault{
        "layout: expected at most " + std::to_string(kMaxLayoutLetters) + " letters, found more",
        node.position};
  }
  std::vector<std::string> positions(1);
  for (const Letter& letter : letters) {
    if (letter.letter == '|') {
      positions.emplace_back();
    } else if (std::string_view("EtmL").find(letter.letter) != std::string_view::npos) {
      positions.back() += letter.letter;
    } else {
      return LayoutFault{"layout: unknown character " +
                             json_quote(std::string_view(&letter.letter, 1)) + " at position " +
                             std::to_string(letter.position) + ", expected E, t, m, L or |",
                         node.position};
    }
  }
  return positions;
}

// Megatron strips blanks around the names and ignores their case.
char letter_of_name(std::string_view name) {
  const std::string_view blanks = " \t\r\n\f\v";
  const std::size_t first = std::min(name.find_first_not_of(blanks), name.size());
  name.remove_prefix(first);
  name = name.substr(0, name.find_last_not_of(blanks) + 1);
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (lower == "embedding") return 'E';
  if (lower == "decoder") return 't';
  if (lower == "mtp") return 'm';
  if (lower == "loss") return 'L';
  return '\0';
}

ExpandedLayout expand_lists(const JsonNode& node) {
  std::vector<std::string> positions;
  for (const JsonNode& position : node.elements) {
    if (position.kind != JsonKind::Array) {
      return LayoutFault{"layout: expected a list of lists, found " + describe(position) +
                             " as stage " + std::to_string(positions.size()),
                         position.position};
    }
    std::string& letters = positions.emplace_back();
    for (const JsonNode& name : position.elements) {
      const char letter = name.kind == JsonKind::String ? letter_of_name(name.text) : '\0';
      if (letter == '\0') {
        return LayoutFault{
            "layout: expected \"embedding\", \"decoder\", \"mtp\" or \"loss\", found " +
                describe(name) + " in stage " + std::to_string(positions.size() - 1),
            name.position};
      }
      letters += letter;
    }
  }
  if (positions.empty()) {
    return LayoutFault{"layout: expected at least one stage, found an empty list", node.position};
  }
  return positions;
}

}  // namespace

ExpandedLayout expand_pipeline_layout(const JsonNode& node) {
  return node.kind == JsonKind::String ? expand_string(node) : expand_lists(node);
}

std::string join_pipeline_layout(const std::vector<std::string>& positions) {
  std::string text;
  for (std::size_t i = 0; i < positions.size(); ++i) text += (i == 0 ? "" : "|") + positions[i];
  return text;
}

}  // namespace plan
