#include "traces/text_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>

#include "traces/job_trace.h"

namespace batchflow::traces {
namespace {

// The number that `count` digits at `at` make, or -1.
int digits_at(std::string_view text, std::size_t at, std::size_t count) {
  if (at + count > text.size()) return -1;
  int value = 0;
  for (std::size_t i = at; i < at + count; ++i) {
    if (!is_digit(text[i])) return -1;
    value = 10 * value + (text[i] - '0');
  }
  return value;
}

// Minutes east of Greenwich; none when the text is not a zone.
std::optional<int> zone_minutes(std::string_view text) {
  if (text == "Z" || text == "z") return 0;
  if (text.size() < 3 || (text.front() != '+' && text.front() != '-')) return std::nullopt;
  const bool colon = text.size() == 6 && text[3] == ':';
  const int hours = digits_at(text, 1, 2);
  const int minutes = text.size() == 3 ? 0 : digits_at(text, colon ? 4 : 3, 2);
  const bool whole = text.size() == 3 || text.size() == 5 || colon;
  if (!whole || hours < 0 || minutes < 0 || hours > 18 || minutes > 59) return std::nullopt;
  return (text.front() == '-' ? -1 : 1) * (60 * hours + minutes);
}

// `1e-05` as `0.00001`, so that it is read as exactly; `mark` is where the exponent begins. None
// when it is not such a number.
std::optional<std::string> without_exponent(std::string_view text, std::size_t mark) {
  constexpr int kMostExponent = 40;
  const std::string_view mantissa = text.substr(0, mark);
  std::string_view power = text.substr(mark + 1);
  if (power.size() > 1 && power.front() == '+' && is_digit(power[1])) power.remove_prefix(1);
  const auto exponent = integer<int>(power);
  if (!exponent || *exponent < -kMostExponent || *exponent > kMostExponent) return std::nullopt;
  const bool negative = mantissa.front() == '-';
  std::string digits(mantissa.substr(negative));
  const std::size_t point = std::min(digits.find('.'), digits.size());
  digits.erase(point, 1);
  digits.insert(0, kMostExponent, '0');
  const auto moved = static_cast<std::size_t>(static_cast<int>(point) + kMostExponent + *exponent);
  if (moved > digits.size()) digits.append(moved - digits.size(), '0');
  digits.insert(moved, ".");
  return (negative ? "-" : "") + digits;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

std::string_view unquoted(std::string_view text) {
  const bool quoted = text.size() >= 2 && text.front() == '"' && text.back() == '"';
  return quoted ? text.substr(1, text.size() - 2) : text;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

void split(std::string_view line, char delimiter, std::vector<std::string_view>& fields) {
  fields.clear();
  const char* at = line.data();
  const char* const end = at + line.size();
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  for (;;) {
    while (at != end && is_blank(*at) && *at != delimiter) ++at;
    const char* const begin = at;
    if (at != end && *at == '"') {
      // To the second quote; a quote without a second is a character like any other.
      const std::string_view rest(at, static_cast<std::size_t>(end - at));
      std::size_t close = rest.find('"', 1);
      while (close != rest.npos && close + 1 < rest.size() && rest[close + 1] == '"') {
        close = rest.find('"', close + 2);
      }
      if (close != rest.npos) at += close;
    }
    while (at != end && *at != delimiter) ++at;
    const char* last = at;
    while (last != begin && is_blank(last[-1])) --last;
    fields.emplace_back(begin, static_cast<std::size_t>(last - begin));
    if (at == end) return;
    ++at;
  }
}

std::string_view field_text(std::string_view field, std::string& buffer) {
  const std::string_view inner = unquoted(field);
  if (inner.size() == field.size() || inner.find('"') == inner.npos) return inner;
  buffer.clear();
  for (std::size_t i = 0; i < inner.size(); ++i) {
    buffer += inner[i];
    if (inner[i] == '"' && i + 1 < inner.size() && inner[i + 1] == '"') ++i;
  }
  return buffer;
}

std::optional<std::int64_t> decimal(std::string_view text, int digits) {
  constexpr std::uint64_t kMost = 9'000'000'000'000'000'000;
  constexpr int kFitting = 19;  // digits of any number up to kMost; more do not fit 64 bits
  constexpr std::uint64_t kPowers[] = {1,       10,        100,        1'000,       10'000,
                                       100'000, 1'000'000, 10'000'000, 100'000'000, 1'000'000'000};
  const char* at = text.data();
  const char* const end = at + text.size();
  const bool negative = at != end && *at == '-';
  at += negative;
  if (at == end || !is_digit(*at)) return std::nullopt;
  std::uint64_t value = 0;
  int fitting = 0;
  const auto append = [&](char digit) {
    value = 10 * value + static_cast<std::uint64_t>(digit - '0');
    fitting += fitting > 0 || value != 0;
  };
  for (; at != end && is_digit(*at); ++at) append(*at);
  const int asked_digits = digits;
  bool round_up = false;
  if (at != end && *at == '.') {
    for (++at; at != end && is_digit(*at) && digits > 0; ++at, --digits) append(*at);
    if (at != end && is_digit(*at)) round_up = *at >= '5';
    while (at != end && is_digit(*at)) ++at;
  }
  if (at != end && (*at == 'e' || *at == 'E')) {
    const auto plain = without_exponent(text, static_cast<std::size_t>(at - text.data()));
    return plain ? decimal(*plain, asked_digits) : std::nullopt;
  }
  const std::uint64_t power = kPowers[digits];
  if (at != end || fitting > kFitting || value > kMost / power) return std::nullopt;
  const auto result = static_cast<std::int64_t>(value * power + round_up);
  return negative ? -result : result;
}

std::optional<CalendarTime> calendar_time(std::string_view text) {
  using namespace std::chrono;
  constexpr std::size_t kWhole = 19;  // YYYY-MM-DD HH:MM:SS
  if (text.size() < kWhole || text[4] != '-' || text[7] != '-' || text[13] != ':' ||
      text[16] != ':' || (text[10] != ' ' && text[10] != 'T')) {
    return std::nullopt;
  }
  const int year_number = digits_at(text, 0, 4), month_number = digits_at(text, 5, 2);
  const int day_number = digits_at(text, 8, 2), hour = digits_at(text, 11, 2);
  const int minute = digits_at(text, 14, 2), second = digits_at(text, 17, 2);
  // Differences of such times fit nanoseconds in 64 bits; a minute may have a leap second.
  if (year_number < 1850 || year_number > 2090 || month_number < 0 || day_number < 0 || hour < 0 ||
      hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60) {
    return std::nullopt;
  }
  const year_month_day date{year(year_number), month(static_cast<unsigned>(month_number)),
                            day(static_cast<unsigned>(day_number))};
  if (!date.ok()) return std::nullopt;
  const std::int64_t days = sys_days(date).time_since_epoch().count();
  CalendarTime time;
  time.ns = (((days * 24 + hour) * 60 + minute) * 60 + second) * kNanosPerSecond;
  std::string_view rest = text.substr(kWhole);
  if (!rest.empty() && rest.front() == '.') {
    const std::size_t end = std::min(rest.find_first_not_of("0123456789", 1), rest.size());
    const auto fraction = decimal("0" + std::string(rest.substr(0, end)), 9);
    if (!fraction || end == 1) return std::nullopt;
    time.ns += *fraction;
    rest.remove_prefix(end);
  }
  if (rest.empty()) return time;
  const auto minutes = zone_minutes(rest);
  if (!minutes) return std::nullopt;
  time.ns -= *minutes * 60 * kNanosPerSecond;
  time.has_zone = true;
  return time;
}

std::string calendar_text(std::int64_t ns) {
  using namespace std::chrono;
  const auto at = floor<seconds>(sys_time<nanoseconds>(nanoseconds(ns)));
  const auto midnight = floor<days>(at);
  const year_month_day date(midnight);
  const hh_mm_ss clock(at - midnight);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

}  // namespace batchflow::traces
