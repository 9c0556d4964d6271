#include "core/base/config_value.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/base/check.h"

namespace batchflow {

namespace {

using Wide = unsigned __int128;

struct Unit {
  std::string_view name;
  std::uint64_t value;
};

constexpr Unit kByteUnits[] = {
    {"", 1},
    {"b", 1},
    {"kb", 1000},
    {"mb", 1000'000},
    {"gb", 1000'000'000},
    {"tb", 1000'000'000'000},
    {"pb", 1000'000'000'000'000},
    {"kib", 1ull << 10},
    {"mib", 1ull << 20},
    {"gib", 1ull << 30},
    {"tib", 1ull << 40},
    {"pib", 1ull << 50},
};
constexpr Unit kTimeUnits[] = {
    {"ns", 1},
    {"us", 1000},
    {"ms", 1000'000},
    {"s", 1000'000'000},
    {"min", 60'000'000'000},
    {"h", 3600'000'000'000},
    {"d", 86400'000'000'000},
};
constexpr Unit kRatioUnits[] = {{"", Ratio::kWhole}, {"%", Ratio::kWhole / 100}};

constexpr int kDigits = 18;  // as many as leave room for any unit in 128 bits

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool same_ignoring_case(std::string_view text, std::string_view lower) {
  if (text.size() != lower.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) != lower[i]) return false;
  }
  return true;
}

// `digits[.digits]` at the front of `text`, which is cut off there. Its value: value /
// 10^fraction_digits.
struct Decimal {
  std::uint64_t value = 0;
  int fraction_digits = 0;
};
std::optional<Decimal> take_decimal(std::string_view& text) {
  Decimal decimal;
  int digits = 0;
  bool in_fraction = false;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (text[at] == '.' && !in_fraction && at > 0) {
      in_fraction = true;
    } else if (is_digit(text[at])) {
      if (++digits > kDigits) return std::nullopt;
      decimal.value = decimal.value * 10 + static_cast<std::uint64_t>(text[at] - '0');
      decimal.fraction_digits += in_fraction;
    } else {
      break;
    }
  }
  if (digits == 0 || text[at - 1] == '.') return std::nullopt;
  text.remove_prefix(at);
  return decimal;
}

// A decimal and one of `units`, multiplied; at most what a signed 64-bit number holds.
template <std::size_t n>
std::optional<std::uint64_t> parse_with_unit(std::string_view text, const Unit (&units)[n]) {
  const auto decimal = take_decimal(text);
  if (!decimal) return std::nullopt;
  for (const Unit& unit : units) {
    if (!same_ignoring_case(text, unit.name)) continue;
    Wide value = static_cast<Wide>(decimal->value) * unit.value;
    for (int i = 0; i < decimal->fraction_digits; ++i) value /= 10;
    if (value > static_cast<Wide>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
    return static_cast<std::uint64_t>(value);
  }
  return std::nullopt;
}

template <class T>
std::optional<T> parse_whole(std::string_view text, int base) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text) {
  return parse_whole<std::int64_t>(text, 10);
}

std::optional<std::uint64_t> parse_unsigned(std::string_view text) {
  if (text.starts_with("0x")) return parse_whole<std::uint64_t>(text.substr(2), 16);
  return parse_whole<std::uint64_t>(text, 10);
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<bool> parse_flag(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}

std::uint64_t Ratio::share_of(std::uint64_t whole) const {
  const Wide part = static_cast<Wide>(parts) * whole / kWhole;
  BF_CHECK(part <= std::numeric_limits<std::uint64_t>::max());
  return static_cast<std::uint64_t>(part);
}

std::optional<Ratio> parse_ratio(std::string_view text) {
  const auto parts = parse_with_unit(text, kRatioUnits);
  return parts ? std::optional(Ratio{*parts}) : std::nullopt;
}

std::optional<Bytes> parse_bytes(std::string_view text) {
  return parse_with_unit(text, kByteUnits);
}

std::optional<Size> parse_size(std::string_view text) {
  if (text.ends_with('%')) {
    const auto ratio = parse_ratio(text);
    return ratio ? std::optional(Size{true, 0, *ratio}) : std::nullopt;
  }
  const auto bytes = parse_bytes(text);
  return bytes ? std::optional(Size{false, *bytes, {}}) : std::nullopt;
}

std::optional<Duration> parse_duration(std::string_view text) {
  if (text == "0") return Duration(0);
  const auto nanoseconds = parse_with_unit(text, kTimeUnits);
  return nanoseconds ? std::optional(Duration(*nanoseconds)) : std::nullopt;
}

namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// Edits (insert, delete, replace, swap of neighbours) that turn `a` into `b`.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view given, const std::vector<std::string_view>& known) {
  const std::string wanted = lower(given);
  std::string_view best;
  std::size_t best_edits = std::max<std::size_t>(1, given.size() / 2) + 1;
  for (std::string_view name : known) {
    const std::string candidate = lower(name);
    // A beginning of three letters or more says more than the number of edits.
    const bool begins = wanted.size() >= 3 && candidate.starts_with(wanted);
    const std::size_t edits = begins ? 0 : distance(wanted, candidate);
    if (edits < best_edits) {
      best_edits = edits;
      best = name;
    }
  }
  return std::string(best);
}

}  // namespace batchflow
