// The values that a configuration or a command line can hold, read from text: sizes, durations,
// numbers, and names out of a list; and the error of a value that cannot be right.
//
// Each `parse_` function answers nullopt for a text that is not of its kind; the caller then says
// where the text stands and what to write. All arithmetic is integer and exact. What is not whole
// is rounded down.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/types.h"

namespace batchflow {

// A configuration, trace or command line that cannot be right. As a rule it is thrown while
// loading, caught in main, and printed as it is: `file:line: what is wrong; what to write`.
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The known name that is most like `given`, for "did you mean"; empty when none is near.
std::string nearest_name(std::string_view given, const std::vector<std::string_view>& known);

std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<std::uint64_t> parse_unsigned(std::string_view text);  // also 0x...
std::optional<double> parse_number(std::string_view text);           // finite
std::optional<bool> parse_flag(std::string_view text);               // true, false

// A fraction of something, exact: `0.001`, `10%`.
struct Ratio {
  static constexpr std::uint64_t kWhole = 1'000'000'000'000;
  std::uint64_t parts = 0;  // of kWhole
  // REQUIRES: the result fits 64 bits. Rounded down.
  std::uint64_t share_of(std::uint64_t whole) const;
  friend constexpr auto operator<=>(const Ratio&, const Ratio&) = default;
};
std::optional<Ratio> parse_ratio(std::string_view text);

// `4096`, `64kb` (10^3), `64kib` (2^10), and the same with m, g, t, p; capital or not; `1.5gb`.
std::optional<Bytes> parse_bytes(std::string_view text);

// A number of bytes, or a fraction of something that is known later: `64gb`, `10%`.
struct Size {
  bool relative = false;
  Bytes bytes = 0;
  Ratio ratio;
  Bytes bytes_of(Bytes whole) const { return relative ? ratio.share_of(whole) : bytes; }
};
std::optional<Size> parse_size(std::string_view text);

// `300s`; the units are ns, us, ms, s, min, h, d. Only zero may stand without a unit.
std::optional<Duration> parse_duration(std::string_view text);

}  // namespace batchflow
