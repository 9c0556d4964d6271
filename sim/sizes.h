// Sizes as people write them: `4096`, `64kb` (10^3), `64mib` (2^20), `1.5gb`, `10%`.
#pragma once

#include <string>
#include <string_view>

#include "core/types.h"

namespace batchflow::sim {

// Percentages are of `whole`, everything is rounded down, exactly.
// Throws ConfigError when the text is no size, or the size is zero.
Bytes parse_size(std::string_view text, Bytes whole);

// 1234567 as `1.23 MB`.
std::string size_text(Bytes bytes);
// 1234567 as `1,234,567`.
std::string count_text(std::uint64_t count);

}  // namespace batchflow::sim
