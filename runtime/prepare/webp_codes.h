// The codes of a lossless WebP picture. The library takes up to 20 KiB for each group of five
// codes, and neither its header nor the size of the picture says how many groups there are. So this
// reads the part of the data that says it, before the library gets any of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace batchflow::prepare {

// At most so many groups are kept. Nothing: the data is damaged.
std::optional<std::uint32_t> webp_code_groups(std::span<const std::byte> lossless);

}  // namespace batchflow::prepare
