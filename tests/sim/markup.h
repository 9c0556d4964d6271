// Checks that a report is one file that needs no other, and reads the figures in it.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace batchflow::test {

// The faults of a text as XML: tags that do not match, attributes without quotes, a bare `<` or
// `&`. Empty: none.
inline std::string markup_problem(std::string_view text) {
  std::vector<std::string> open;
  std::size_t at = 0;
  const auto entity_ends = [&](std::size_t from) {
    const std::size_t end = text.find(';', from);
    return end != std::string_view::npos && end - from < 10;
  };
  while (at < text.size()) {
    if (text[at] == '&' && !entity_ends(at)) return "a bare & at " + std::to_string(at);
    if (text[at] != '<') {
      ++at;
      continue;
    }
    if (text.substr(at).starts_with("<![CDATA[")) {
      at = text.find("]]>", at);
      if (at == std::string_view::npos) return "a section that does not end";
      at += 3;
      continue;
    }
    std::size_t end = at + 1;
    bool quoted = false;
    for (; end < text.size() && (quoted || text[end] != '>'); ++end) {
      if (text[end] == '"') quoted = !quoted;
      if (text[end] == '<') return "a < within a tag at " + std::to_string(end);
      if (text[end] == '=' && !quoted && text[end + 1] != '"') {
        return "no quotes at " + std::to_string(end);
      }
    }
    if (end == text.size()) return "a tag that does not end at " + std::to_string(at);
    const std::string_view tag = text.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.starts_with('!') || tag.ends_with('/')) continue;
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return "</" + std::string(tag.substr(1));
      open.pop_back();
    } else {
      open.emplace_back(tag.substr(0, tag.find_first_of(" \n")));
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> is not closed";
}

inline void check_stands_alone(const std::string& html) {
  CHECK(markup_problem(html) == "");
  for (const char* outside : {"http", "src=", "href=", "url(", "@import", "fetch(", "import("}) {
    CAPTURE(outside);
    CHECK(html.find(outside) == std::string::npos);
  }
  CHECK(html.starts_with("<!DOCTYPE html>"));
}

// All data-field with their data-value, in order.
inline std::vector<std::pair<std::string, std::string>> figures_of(const std::string& html) {
  std::vector<std::pair<std::string, std::string>> figures;
  const std::string mark = "data-field=\"";
  for (std::size_t at = html.find(mark); at != std::string::npos; at = html.find(mark, at)) {
    at += mark.size();
    const std::size_t end = html.find('"', at);
    const std::size_t value = html.find('"', end + 1) + 1;
    figures.emplace_back(html.substr(at, end - at),
                         html.substr(value, html.find('"', value) - value));
  }
  return figures;
}

}  // namespace batchflow::test
