#include "core/order/position_forms.h"

#include <algorithm>

namespace batchflow::order {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::vector<std::uint8_t> bytes_of(const Bitmap& bitmap) {
  std::vector<std::uint8_t> bytes(bitmap_bytes(bitmap.size()));
  bitmap.for_each(
      [&](std::size_t i) { bytes[i / 8] = static_cast<std::uint8_t>(bytes[i / 8] | 1u << i % 8); });
  return bytes;
}

std::optional<Bitmap> bitmap_of(std::span<const std::uint8_t> bytes, std::uint64_t bits) {
  if (bytes.size() != bitmap_bytes(bits)) return std::nullopt;
  Bitmap bitmap(bits);
  for (std::size_t i = 0; i < bytes.size() * 8; ++i) {
    if ((bytes[i / 8] >> i % 8 & 1) == 0) continue;
    if (i >= bits) return std::nullopt;
    bitmap.set(i);
  }
  return bitmap;
}

std::string base64_of(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) group = group << 8 | (k < count ? bytes[i + k] : 0u);
    for (std::size_t k = 0; k < 4; ++k) {
      text += k <= count ? kAlphabet[group >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

std::optional<std::vector<std::uint8_t>> bytes_of_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::vector<std::uint8_t> bytes;
  std::uint32_t bits = 0;  // not yet given out, the last `held` of them
  std::uint32_t held = 0;
  for (const char c : text.substr(0, text.size() - padding)) {
    const std::size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 6 | static_cast<std::uint32_t>(value)) & 0xfff;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes.push_back(static_cast<std::uint8_t>(bits >> held));
  }
  if ((bits & ((1u << held) - 1)) != 0) return std::nullopt;  // another text for the same bytes
  return bytes;
}

}  // namespace batchflow::order
