// The fields of a line of text, and the numbers and times in them. For all readers of text.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace batchflow::traces {

std::string_view trimmed(std::string_view text);   // without blanks and returns at its ends
std::string_view unquoted(std::string_view text);  // without one pair of double quotes
std::string lower(std::string_view text);
inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Fields between `delimiter`s, trimmed. A field that begins with a double quote ends with its
// second; a quote in it is doubled. The quotes are kept.
void split(std::string_view line, char delimiter, std::vector<std::string_view>& fields);
// The text of a field from `split`; `buffer` holds the text where quotes were doubled.
std::string_view field_text(std::string_view field, std::string& buffer);

// The integer that the whole text is; else none.
template <class Integer>
std::optional<Integer> integer(std::string_view text) {
  Integer value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A decimal number times 10^digits, rounded: "1.5" and "15e-1" are 150 at 2 digits. None when it is
// not such a number, has an exponent beyond 40, or the result is beyond 9 * 10^18. REQUIRES: digits
// is from 0 to 9
std::optional<std::int64_t> decimal(std::string_view text, int digits);

// A date and time of the calendar, in nanoseconds since 1970: `2017-10-07 01:12:09`, with a
// fraction or not, with `T` between or not, with a zone (`Z`, `+08:00`, `+0800`) or not.
struct CalendarTime {
  std::int64_t ns =
      0;  // of UTC where the text names its zone, else of the clock that it was read from
  bool has_zone = false;
};
std::optional<CalendarTime> calendar_time(std::string_view text);
// As text, to the second: `2017-10-07 01:12:09`.
std::string calendar_text(std::int64_t ns);

}  // namespace batchflow::traces
