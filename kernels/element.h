// The element types of finished pictures, and the table that finishes them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/picture.h"

namespace batchflow::kernels {

enum class Element : std::uint8_t { u8, f16, bf16, f32 };
constexpr std::size_t bytes_of(Element element) {
  return element == Element::u8 ? 1 : element == Element::f32 ? 4 : 2;
}

// Round to the nearest value, halves to the even one.
std::uint16_t to_f16(float value);
std::uint16_t to_bf16(float value);

struct Normalisation {
  std::array<float, kChannels> mean{};
  std::array<float, kChannels> deviation{};
};

// A channel has 256 values, so whatever is done to each of them is a table: the bits of the
// finished element.
struct FinishTable {
  std::uint32_t bits[kChannels][256];
};
// Values are 0 to 255, or with a normalisation (value / 255 - mean) / deviation.
// REQUIRES: no normalisation of u8
FinishTable finish_table(Element element, const std::optional<Normalisation>& normalisation);

}  // namespace batchflow::kernels
