#include "libplan/strategy/check_format.h"

#include <algorithm>
#include <array>
#include <map>

#include "libplan/base/json_tree.h"

namespace plan::check {
namespace {

std::string number(std::int64_t value) { return std::to_string(value); }

// `entry 3 "dp8": message`.
std::string full_message(const Diagnostic& d) {
  std::string text;
  if (d.entry) {
    text = "entry " + number(*d.entry) + (d.name.empty() ? "" : " " + json_quote(d.name)) + ": ";
  }
  return text + d.message;
}

std::string message_with_fix(const Diagnostic& d) {
  return full_message(d) + (d.fix.empty() ? "" : "; fix: " + d.fix);
}

std::string plural(std::int64_t count, const std::string& word) {
  return number(count) + " " + word + (count == 1 ? "" : "s");
}

std::int64_t count_of(const std::vector<Diagnostic>& findings, Severity severity) {
  return std::count_if(findings.begin(), findings.end(),
                       [&](const Diagnostic& d) { return d.severity == severity; });
}

std::string text_form(const std::vector<Diagnostic>& findings, const std::string& source) {
  std::string text;
  for (const Diagnostic& d : findings) {
    text += source + ":" + number(d.line) + ":" + number(d.column) + ": " +
            std::string(name_of(d.severity)) + ": " + full_message(d) + " [" + d.rule + "]\n";
    if (!d.fix.empty()) text += "  fix: " + d.fix + "\n";
  }
  return text + source + ": " + plural(count_of(findings, Severity::Error), "error") + ", " +
         plural(count_of(findings, Severity::Warning), "warning") + ", " +
         plural(count_of(findings, Severity::Note), "note") + "\n";
}

std::string json_form(const std::vector<Diagnostic>& findings) {
  std::string text = "{\"diagnostics\": [";
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const Diagnostic& d = findings[i];
    text += i == 0 ? "\n" : ",\n";
    text += " {\"rule\": " + json_quote(d.rule) +
            ", \"severity\": " + json_quote(name_of(d.severity)) +
            ", \"entry\": " + (d.entry ? number(*d.entry) : "null") +
            ", \"name\": " + (d.entry ? json_quote(d.name) : "null") +
            ", \"pointer\": " + json_quote(d.pointer) + ", \"line\": " + number(d.line) +
            ", \"column\": " + number(d.column) + ", \"message\": " + json_quote(d.message) +
            ", \"fix\": " + json_quote(d.fix) + "}";
  }
  return text + (findings.empty() ? "]}\n" : "\n]}\n");
}

// RFC 3986 path of a file name: everything but unreserved characters and "/" is escaped.
std::string uri_of(const std::string& path) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string uri;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    if (plain) {
      uri += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    uri += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return uri;
}

std::string sarif_result(const Diagnostic& d, const std::string& uri, std::size_t rule_index) {
  return "{\"ruleId\": " + json_quote(d.rule) +
         ", \"ruleIndex\": " + number(static_cast<std::int64_t>(rule_index)) +
         ", \"level\": " + json_quote(name_of(d.severity)) +
         ", \"message\": {\"text\": " + json_quote(message_with_fix(d)) +
         "}, \"locations\": [{\"physicalLocation\": {\"artifactLocation\": {\"uri\": " +
         json_quote(uri) + "}, \"region\": {\"startLine\": " + number(d.line) +
         ", \"startColumn\": " + number(d.column) +
         "}}, \"logicalLocations\": [{\"fullyQualifiedName\": " + json_quote(d.pointer) + "}]}]}";
}

std::string sarif_form(const std::vector<Diagnostic>& findings, const std::string& source) {
  std::map<std::string, std::size_t> rules;
  for (const Diagnostic& d : findings) rules.emplace(d.rule, 0);
  std::string rule_list;
  std::size_t next = 0;
  for (auto& [rule, index] : rules) {
    index = next++;
    rule_list += (index == 0 ? "\n      {\"id\": " : ",\n      {\"id\": ") + json_quote(rule) +
                 ", \"shortDescription\": {\"text\": " + json_quote(summary_of_rule(rule)) + "}}";
  }
  std::string results;
  for (const Diagnostic& d : findings) {
    results += (results.empty() ? "\n    " : ",\n    ") +
               sarif_result(d, uri_of(source), rules.at(d.rule));
  }
  return "{\n \"$schema\": \"https://json.schemastore.org/sarif-2.1.0.json\",\n"
         " \"version\": \"2.1.0\",\n \"runs\": [{\n"
         "   \"tool\": {\"driver\": {\"name\": \"reshard-plan\", \"rules\": [" +
         rule_list + "]}},\n   \"results\": [" + results + "]\n }]\n}\n";
}

// XML 1.0 has no way to write most control characters.
std::string xml_escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    }
  }
  return out;
}

std::string junit_form(const std::vector<Diagnostic>& findings, const std::string& source) {
  const std::int64_t failures =
      count_of(findings, Severity::Error) + count_of(findings, Severity::Warning);
  const auto tests = std::max<std::int64_t>(static_cast<std::int64_t>(findings.size()), 1);
  const std::string suite = xml_escape(source);
  std::string text =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
      "  <testsuite name=\"" +
      suite + "\" tests=\"" + number(tests) + "\" failures=\"" + number(failures) +
      "\" errors=\"0\" skipped=\"0\">\n";
  if (findings.empty()) {
    text += "    <testcase classname=\"" + suite + "\" name=\"strategy list\"/>\n";
  }
  for (const Diagnostic& d : findings) {
    const std::string place = d.rule + " " + (d.pointer.empty() ? "/" : d.pointer);
    const std::string where =
        source + ":" + number(d.line) + ":" + number(d.column) + ": " + message_with_fix(d);
    text += "    <testcase classname=\"" + suite + "\" name=\"" + xml_escape(place) + "\">";
    if (d.severity == Severity::Note) {
      text += "<system-out>" + xml_escape(where) + "</system-out>";
    } else {
      text += "<failure type=\"" + std::string(name_of(d.severity)) + "\" message=\"" +
              xml_escape(full_message(d)) + "\">" + xml_escape(where) + "</failure>";
    }
    text += "</testcase>\n";
  }
  return text + "  </testsuite>\n</testsuites>\n";
}

// `property`: also the separators of the properties before "::".
std::string github_escape(const std::string& text, bool property) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '%': out += "%25"; break;
      case '\r': out += "%0D"; break;
      case '\n': out += "%0A"; break;
      case ':': out += property ? "%3A" : ":"; break;
      case ',': out += property ? "%2C" : ","; break;
      default: out += c;
    }
  }
  return out;
}

std::string github_form(const std::vector<Diagnostic>& findings, const std::string& source) {
  std::string text;
  for (const Diagnostic& d : findings) {
    const std::string level =
        d.severity == Severity::Note ? "notice" : std::string(name_of(d.severity));
    text += "::" + level + " file=" + github_escape(source, true) + ",line=" + number(d.line) +
            ",col=" + number(d.column) + ",title=" + github_escape(d.rule, true) +
            "::" + github_escape(message_with_fix(d), false) + "\n";
  }
  return text;
}

}  // namespace

std::optional<Format> format_from_name(std::string_view name) {
  if (name == "text") return Format::Text;
  if (name == "json") return Format::Json;
  if (name == "sarif") return Format::Sarif;
  if (name == "junit") return Format::Junit;
  if (name == "github") return Format::Github;
  return {};
}

std::string format_findings(const std::vector<Diagnostic>& findings, const std::string& source_name,
                            Format format) {
  switch (format) {
    case Format::Text: return text_form(findings, source_name);
    case Format::Json: return json_form(findings);
    case Format::Sarif: return sarif_form(findings, source_name);
    case Format::Junit: return junit_form(findings, source_name);
    case Format::Github: break;
  }
  return github_form(findings, source_name);
}

}  // namespace plan::check
