// What the two forms of a position, compact bytes and JSON, have in common. Used by these alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/bitmap.h"

namespace batchflow::order {

inline std::uint64_t bitmap_bytes(std::uint64_t bits) {
  return bits / 8 + (bits % 8 != 0 ? 1 : 0);
}
// Bit i is bit i % 8 of byte i / 8; bits beyond the last are 0.
std::vector<std::uint8_t> bytes_of(const Bitmap& bitmap);
// Empty unless the bytes are exactly those of that many bits.
std::optional<Bitmap> bitmap_of(std::span<const std::uint8_t> bytes, std::uint64_t bits);

std::string base64_of(std::span<const std::uint8_t> bytes);
// Empty unless the text is what base64_of writes for some bytes.
std::optional<std::vector<std::uint8_t>> bytes_of_base64(std::string_view text);

}  // namespace batchflow::order
