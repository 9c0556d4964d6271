// Tars that tests write themselves.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "fmt/format.h"

namespace batchflow::test {

inline std::string tar_header(std::string_view name, std::uint64_t bytes, char type,
                              std::string_view prefix = "") {
  std::string header(512, '\0');
  header.replace(0, std::min<std::size_t>(name.size(), 100), name.substr(0, 100));
  header.replace(100, 8, std::string("0000644\0", 8));
  header.replace(124, 12, fmt::format("{:011o} ", bytes));
  header[156] = type;
  header.replace(257, 8, std::string("ustar\00000", 8));
  header.replace(345, prefix.size(), prefix);
  header.replace(148, 8, "        ");
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return header;
}

inline std::string tar_blocks(std::string_view bytes) {
  std::string blocks(bytes);
  blocks.resize((bytes.size() + 511) / 512 * 512);
  return blocks;
}

inline std::string tar_member(std::string_view name, std::string_view bytes, char type = '0') {
  return tar_header(name, bytes.size(), type) + tar_blocks(bytes);
}
inline std::string gnu_member(std::string_view name, std::string_view bytes) {
  const std::string text = std::string(name) + '\0';
  return tar_header("././@LongLink", text.size(), 'L') + tar_blocks(text) + tar_member(name, bytes);
}
inline std::string pax_line(std::string_view key, std::string_view value) {
  std::size_t length = key.size() + value.size() + 3;
  while (fmt::format("{} {}={}\n", length, key, value).size() != length) ++length;
  return fmt::format("{} {}={}\n", length, key, value);
}
inline std::string pax_member(std::string_view name, std::string_view bytes) {
  const std::string lines = pax_line("mtime", "1.5") + pax_line("path", name);
  return tar_header("PaxHeaders/x", lines.size(), 'x') + tar_blocks(lines) +
         tar_member("short", bytes);
}
inline std::string tar_end() {
  return std::string(1024, '\0');
}

}  // namespace batchflow::test
