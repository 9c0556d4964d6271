// Numbers as people write them in options, and as they read them in tables and reports.
#pragma once

#include <string>
#include <string_view>

#include "core/base/config_value.h"
#include "core/base/types.h"

namespace batchflow::sim {

// `4096`, `64kb` (10^3), `64mib` (2^20), `1.5gb`, `10%`.
struct AskedSize {
  std::string text;
  Size size;
};
// Throws ConfigError when the text is not a size, or is a size of zero.
AskedSize ask_for_size(std::string_view text);
// A part is a part of `whole`; everything is rounded down. Throws ConfigError when less than a
// byte is left.
Bytes size_in_bytes(const AskedSize& asked, Bytes whole);

// 1234567 as `1.23 MB`.
std::string size_text(Bytes bytes);
// 1234567 as `1,234,567`.
std::string count_text(std::uint64_t count);
std::string percent(double ratio);  // 0.123 as `12.3 %`
std::string rate_text(double per_s);
// With two digits behind the point, or three that count: `12.34`, `0.00123`.
std::string price_text(double price);
// 1234.5 as `20 min 34.5 s`.
std::string time_text(double seconds);

}  // namespace batchflow::sim
