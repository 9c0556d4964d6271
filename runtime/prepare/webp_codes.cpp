#include "runtime/prepare/webp_codes.h"

#include <algorithm>
#include <array>

namespace batchflow::prepare {
namespace {

constexpr std::uint32_t kCodeLengthMost = 15;
constexpr std::uint32_t kLiterals = 256, kLengths = 24, kDistances = 40;
constexpr std::uint32_t kSymbolsMost = kLiterals + kLengths + (1 << 11);
// More groups than these are kept only where a pixel uses them.
constexpr std::uint32_t kGroupsKeptUnused = 1000;

// WebpBits, the lowest of each byte first. Behind the end they are 0.
class WebpBits {
 public:
  explicit WebpBits(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint32_t read(std::uint32_t count) {
    std::uint32_t value = 0;
    for (std::uint32_t i = 0; i < count; ++i, ++at_) {
      if (at_ / 8 >= bytes_.size()) continue;
      value |= (std::to_integer<std::uint32_t>(bytes_[at_ / 8]) >> at_ % 8 & 1) << i;
    }
    return value;
  }
  bool ended() const { return at_ > 8 * std::uint64_t{bytes_.size()}; }

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
};

// A canonical Huffman code.
class WebpCode {
 public:
  // False: the lengths make no code in which each sequence of bits means something.
  bool make(std::span<const std::uint8_t> lengths) {
    counts_ = {};
    std::uint32_t symbols = 0;
    for (const std::uint8_t length : lengths) {
      ++counts_[length];
      symbols += length != 0;
    }
    counts_[0] = 0;
    std::array<std::uint32_t, kCodeLengthMost + 2> begins{};
    std::int64_t left = 1;
    for (std::uint32_t length = 1; length <= kCodeLengthMost; ++length) {
      begins[length + 1] = begins[length] + counts_[length];
      left = 2 * left - counts_[length];
      if (left < 0) return false;
    }
    for (std::uint32_t symbol = 0; symbol < lengths.size(); ++symbol)
      if (lengths[symbol] != 0) symbols_[begins[lengths[symbol]]++] = symbol;
    only_ = symbols == 1;
    return only_ || left == 0;
  }

  std::uint32_t read(WebpBits& bits) const {
    if (only_) return symbols_[0];
    std::int64_t code = 0, first = 0;
    std::uint32_t index = 0;
    for (std::uint32_t length = 1; length <= kCodeLengthMost; ++length) {
      code |= bits.read(1);
      if (code - first < counts_[length])
        return symbols_[index + static_cast<std::uint32_t>(code - first)];
      index += counts_[length];
      first = (first + counts_[length]) << 1;
      code <<= 1;
    }
    return 0;  // make() has refused such codes
  }

 private:
  std::array<std::uint32_t, kCodeLengthMost + 1> counts_{};
  std::array<std::uint32_t, kSymbolsMost> symbols_{};
  bool only_ = false;
};

class WebpCodeReader {
 public:
  explicit WebpCodeReader(std::span<const std::byte> bytes) : bits_(bytes) {}

  std::optional<std::uint32_t> groups() {
    constexpr std::uint32_t kSignature = 0x2f;
    if (bits_.read(8) != kSignature) return std::nullopt;
    std::uint32_t width = bits_.read(14) + 1;
    const std::uint32_t height = bits_.read(14) + 1;
    bits_.read(1);  // whether alpha is used
    if (bits_.read(3) != 0) return std::nullopt;
    if (!skip_transforms(width, height)) return std::nullopt;
    std::uint32_t cache = 0;
    if (!read_cache(cache)) return std::nullopt;
    if (bits_.read(1) == 0) return bits_.ended() ? std::nullopt : std::optional(1u);
    const std::uint32_t block = bits_.read(3) + 2;
    if (!read_picture(over(width, block), over(height, block))) return std::nullopt;
    const std::uint32_t groups = group_most_ + 1;
    return groups <= kGroupsKeptUnused ? groups : std::min(groups, literals_);
  }

 private:
  enum Transform : std::uint32_t { kPredictor, kCrossColour, kSubtractGreen, kPalette };

  static std::uint32_t over(std::uint32_t size, std::uint32_t bits) {
    return (size + (1u << bits) - 1) >> bits;
  }

  bool skip_transforms(std::uint32_t& width, std::uint32_t height) {
    std::uint32_t seen = 0;
    while (bits_.read(1) != 0) {
      const std::uint32_t transform = bits_.read(2);
      if (seen >> transform & 1) return false;
      seen |= 1u << transform;
      if (transform == kPredictor || transform == kCrossColour) {
        const std::uint32_t block = bits_.read(3) + 2;
        if (!read_picture(over(width, block), over(height, block))) return false;
      } else if (transform == kPalette) {
        const std::uint32_t colours = bits_.read(8) + 1;
        if (!read_picture(colours, 1)) return false;
        width = over(width, colours <= 2 ? 3 : colours <= 4 ? 2 : colours <= 16 ? 1 : 0);
      }
    }
    return !bits_.ended();
  }

  bool read_cache(std::uint32_t& symbols) {
    symbols = 0;
    if (bits_.read(1) == 0) return true;
    const std::uint32_t size = bits_.read(4);
    if (size < 1 || size > 11) return false;
    symbols = 1u << size;
    return true;
  }

  // One of the pictures that belong to the picture: it has a single group. What is repeated of it
  // has been in it before, so only its literal pixels are looked at.
  bool read_picture(std::uint32_t width, std::uint32_t height) {
    std::uint32_t cache = 0;
    if (!read_cache(cache)) return false;
    if (!read_code(green_, kLiterals + kLengths + cache) || !read_code(red_, kLiterals) ||
        !read_code(blue_, kLiterals) || !read_code(alpha_, kLiterals) ||
        !read_code(distance_, kDistances))
      return false;
    group_most_ = literals_ = 0;
    const std::uint64_t pixels = std::uint64_t{width} * height;
    for (std::uint64_t done = 0; done < pixels;) {
      if (bits_.ended()) return false;
      const std::uint32_t symbol = green_.read(bits_);
      if (symbol < kLiterals) {
        group_most_ = std::max(group_most_, red_.read(bits_) << 8 | symbol);
        blue_.read(bits_);
        alpha_.read(bits_);
        ++literals_;
        ++done;
      } else if (symbol < kLiterals + kLengths) {
        done += read_number(symbol - kLiterals);
        read_number(distance_.read(bits_));
      } else {
        ++done;
      }
    }
    return !bits_.ended();
  }

  std::uint32_t read_number(std::uint32_t prefix) {
    if (prefix < 4) return prefix + 1;
    const std::uint32_t extra = (prefix - 2) >> 1;
    return ((2 + (prefix & 1)) << extra) + bits_.read(extra) + 1;
  }

  bool read_code(WebpCode& code, std::uint32_t symbols) {
    std::array<std::uint8_t, kSymbolsMost> lengths{};
    if (bits_.read(1) != 0) {
      const std::uint32_t count = bits_.read(1) + 1;
      lengths[bits_.read(bits_.read(1) != 0 ? 8 : 1)] = 1;
      if (count == 2) lengths[bits_.read(8)] = 1;
    } else if (!read_lengths(lengths, symbols)) {
      return false;
    }
    return !bits_.ended() && code.make(std::span(lengths).first(symbols));
  }

  bool read_lengths(std::array<std::uint8_t, kSymbolsMost>& lengths, std::uint32_t symbols) {
    constexpr std::array<std::uint8_t, 19> kOrder = {17, 18, 0, 1,  2,  3,  4,  5,  16, 6,
                                                     7,  8,  9, 10, 11, 12, 13, 14, 15};
    std::array<std::uint8_t, kOrder.size()> of_lengths{};
    const std::uint32_t count = bits_.read(4) + 4;
    if (count > kOrder.size()) return false;
    for (std::uint32_t i = 0; i < count; ++i)
      of_lengths[kOrder[i]] = static_cast<std::uint8_t>(bits_.read(3));
    if (!lengths_.make(of_lengths)) return false;
    std::uint32_t left = symbols;
    if (bits_.read(1) != 0) {
      const std::uint32_t size = 2 + 2 * bits_.read(3);
      left = 2 + bits_.read(size);
      if (left > symbols) return false;
    }
    std::uint8_t before = 8;
    for (std::uint32_t at = 0; at < symbols && left > 0; --left) {
      const std::uint32_t symbol = lengths_.read(bits_);
      if (symbol < 16) {
        lengths[at++] = static_cast<std::uint8_t>(symbol);
        if (symbol != 0) before = static_cast<std::uint8_t>(symbol);
        continue;
      }
      const std::uint32_t repeat = symbol == 16   ? 3 + bits_.read(2)
                                   : symbol == 17 ? 3 + bits_.read(3)
                                                  : 11 + bits_.read(7);
      if (repeat > symbols - at) return false;
      std::fill_n(lengths.begin() + at, repeat, symbol == 16 ? before : std::uint8_t{0});
      at += repeat;
    }
    return true;
  }

  WebpBits bits_;
  WebpCode lengths_, green_, red_, blue_, alpha_, distance_;
  std::uint32_t group_most_ = 0;  // the largest number of a group in the picture read last
  std::uint32_t literals_ = 0;    // of its pixels
};

}  // namespace

std::optional<std::uint32_t> webp_code_groups(std::span<const std::byte> lossless) {
  return WebpCodeReader(lossless).groups();
}

}  // namespace batchflow::prepare
