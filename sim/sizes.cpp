#include "sim/sizes.h"

#include <fmt/format.h>

#include <cctype>
#include <limits>

#include "core/config_error.h"

namespace batchflow::sim {
namespace {

using Wide = unsigned __int128;
constexpr int kMostDigits = 19;  // fit into 64 bits

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr Unit kUnits[] = {
    {"", 1},
    {"b", 1},
    {"kb", 1000},
    {"mb", 1000000},
    {"gb", 1000000000},
    {"tb", 1000000000000},
    {"kib", std::uint64_t{1} << 10},
    {"mib", std::uint64_t{1} << 20},
    {"gib", std::uint64_t{1} << 30},
    {"tib", std::uint64_t{1} << 40},
};

[[noreturn]] void refuse(std::string_view text) {
  throw ConfigError(fmt::format(
      "'{}' is no cache size; write a number of bytes, with a unit (64mb, 1.5gib), or a share of "
      "the working set (10%)",
      text));
}

// digits / 10^decimals
struct Decimal {
  std::uint64_t digits = 0;
  std::uint64_t scale = 1;
};

Decimal take_decimal(std::string_view text, std::string_view& rest) {
  Decimal value;
  int digits = 0;
  bool point = false;
  while (!rest.empty() && (std::isdigit(static_cast<unsigned char>(rest.front())) ||
                           (rest.front() == '.' && !point))) {
    if (rest.front() == '.') {
      point = true;
    } else {
      if (++digits > kMostDigits) refuse(text);
      value.digits = 10 * value.digits + static_cast<std::uint64_t>(rest.front() - '0');
      if (point) value.scale *= 10;
    }
    rest.remove_prefix(1);
  }
  if (digits == 0) refuse(text);
  return value;
}

std::uint64_t unit_bytes(std::string_view text, std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const Unit& unit : kUnits) {
    if (unit.name == lower) return unit.bytes;
  }
  refuse(text);
}

}  // namespace

Bytes parse_size(std::string_view text, Bytes whole) {
  std::string_view rest = text;
  const Decimal value = take_decimal(text, rest);
  const bool percent = rest == "%";
  if (value.digits == 0) {
    throw ConfigError(
        fmt::format("a cache of size '{}' keeps nothing; write a size above 0", text));
  }
  const Wide factor = percent ? whole : unit_bytes(text, rest);
  const Wide divisor = Wide{value.scale} * (percent ? 100 : 1);
  const Wide bytes = Wide{value.digits} * factor / divisor;
  if (bytes > std::numeric_limits<Bytes>::max()) refuse(text);
  if (bytes == 0) {
    throw ConfigError(fmt::format("'{}' of {} bytes is less than one byte; write a larger size",
                                  text, percent ? whole : unit_bytes(text, rest)));
  }
  return static_cast<Bytes>(bytes);
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

}  // namespace batchflow::sim
