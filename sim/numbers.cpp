#include "sim/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/config_value.h"

namespace batchflow::sim {
namespace {

constexpr std::string_view kRemedy =
    "write bytes (4096), with a unit (64mb, 1.5gib), or a part of the working set (10%)";
constexpr Bytes kMostBytes = std::numeric_limits<std::int64_t>::max();

[[noreturn]] void refuse(std::string_view text, std::string_view why, std::string_view remedy) {
  throw ConfigError(fmt::format("size '{}' {}; {}", text, why, remedy));
}

[[noreturn]] void refuse_too_large(std::string_view text) {
  refuse(text, "is more than any cache has", "write at most 9223pb");
}

// Says why a text is not a size.
[[noreturn]] void refuse(std::string_view text) {
  if (text.starts_with("0x")) refuse(text, "is hexadecimal", "write a decimal number");
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const bool fits_if_small = parse_size("1" + std::string(text.substr(digits))).has_value();
  if (digits > 1 && fits_if_small) refuse_too_large(text);
  refuse(text, "is not a cache size", kRemedy);
}

}  // namespace

AskedSize ask_for_size(std::string_view text) {
  const auto size = parse_size(text);
  if (!size) refuse(text);
  const bool without_unit = text.find_first_not_of("0123456789.") == std::string_view::npos;
  if (without_unit && text.find('.') != std::string_view::npos) {
    refuse(text, "has no unit", "write 1.5gb or so, or a part of the working set as 10%");
  }
  if (!size->relative && size->bytes == 0) refuse(text, "keeps nothing", "write a size above 0");
  if (size->relative && size->ratio == Ratio{}) refuse(text, "keeps nothing", "write it above 0%");
  return {std::string(text), *size};
}

Bytes size_in_bytes(const AskedSize& asked, Bytes whole) {
  const Bytes times = asked.size.ratio.parts / Ratio::kWhole + 1;
  if (asked.size.relative && times > 1 && whole > kMostBytes / times) refuse_too_large(asked.text);
  const Bytes bytes = asked.size.bytes_of(whole);
  if (bytes == 0) {
    refuse(asked.text, fmt::format("of {} bytes is less than one byte", whole),
           "write a larger part");
  }
  return bytes;
}

std::string size_text(Bytes bytes) {
  constexpr std::string_view kNames[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kNames)) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g} {}", value, kNames[unit]);
}

std::string count_text(std::uint64_t count) {
  std::string text = fmt::format("{}", count);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string percent(double ratio) {
  return fmt::format("{:.1f} %", 100 * ratio);
}

std::string rate_text(double per_s) {
  return per_s >= 1000 ? count_text(static_cast<std::uint64_t>(std::llround(per_s)))
                       : fmt::format("{:.1f}", per_s);
}

std::string price_text(double price) {
  return price >= 1 || price == 0 ? fmt::format("{:.2f}", price) : fmt::format("{:.3g}", price);
}

std::string time_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.3g} s", seconds);
  if (seconds < 3600) {
    const long whole = std::lround(seconds);
    return fmt::format("{} min {} s", whole / 60, whole % 60);
  }
  if (seconds < 48 * 3600.0) return fmt::format("{:.2f} h", seconds / 3600);
  return fmt::format("{:.2f} d", seconds / 86400);
}

}  // namespace batchflow::sim
