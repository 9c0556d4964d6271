// Small readings of text: what is between tags of XML, variables of the environment, files.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace batchflow::objects {

// What lies between <name> and </name>; `rest` then begins behind it. None: there is no such
// element.
inline std::optional<std::string_view> take_element(std::string_view& rest, std::string_view name) {
  const std::string open = "<" + std::string(name) + ">", close = "</" + std::string(name) + ">";
  const std::size_t begin = rest.find(open);
  if (begin == std::string_view::npos) return std::nullopt;
  const std::size_t end = rest.find(close, begin + open.size());
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view inside = rest.substr(begin + open.size(), end - begin - open.size());
  rest.remove_prefix(end + close.size());
  return inside;
}
inline std::string_view element(std::string_view text, std::string_view name) {
  return take_element(text, name).value_or("");
}

inline std::string unescaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    bool found = false;
    if (text.front() == '&') {
      constexpr std::string_view kNames[][2] = {{"&amp;", "&"},   {"&lt;", "<"},   {"&gt;", ">"},
                                                {"&quot;", "\""}, {"&#34;", "\""}, {"&apos;", "'"}};
      for (const auto& [name, character] : kNames) {
        if (!text.starts_with(name)) continue;
        out += character;
        text.remove_prefix(name.size());
        found = true;
        break;
      }
    }
    if (found) continue;
    out += text.front();
    text.remove_prefix(1);
  }
  return out;
}

inline std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

// At most 1 MiB of a file; empty where there is none.
inline std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(1 << 20, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

inline std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first));
}

// At most 200 characters, up to the first that cannot be printed.
inline std::string_view until_control(std::string_view text) {
  const auto end =
      std::find_if(text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; });
  return text.substr(0, std::min<std::size_t>(static_cast<std::size_t>(end - text.begin()), 200));
}

inline std::string first_filled(std::initializer_list<std::string> texts) {
  for (const std::string& one : texts)
    if (!one.empty()) return one;
  return "";
}

}  // namespace batchflow::objects
