// Sizes as people write them: `4096`, `64kb` (10^3), `64mib` (2^20), `1.5gb`, `10%`.
#pragma once

#include <string>
#include <string_view>

#include "core/base/config_value.h"
#include "core/base/types.h"

namespace batchflow::sim {

struct AskedSize {
  std::string text;
  Size size;
};
// Throws ConfigError when the text is not a size, or is a size of zero.
AskedSize ask_for_size(std::string_view text);
// A share is a share of `whole`; everything is rounded down. Throws ConfigError when less than a
// byte is left.
Bytes size_in_bytes(const AskedSize& asked, Bytes whole);

// 1234567 as `1.23 MB`.
std::string size_text(Bytes bytes);
// 1234567 as `1,234,567`.
std::string count_text(std::uint64_t count);

}  // namespace batchflow::sim
