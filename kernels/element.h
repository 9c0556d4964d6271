// The element types of finished pictures, and the table that finishes them.
#pragma once

#include <array>
#include <cmath>
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
// finished element. Arithmetic is compared with the table when that is made. Where it gives all
// values, a GPU uses it: a GPU has no fast memory for tables that many threads read at random.
struct FinishTable {
  enum class By : std::uint8_t {
    table,
    product,   // fma(value, factor, offset)
    quotients  // of value and 255, then of what is left and the deviation: see quotient()
  };
  std::uint32_t bits[kChannels][256];
  By by;
  struct Channel {
    float factor, offset;
    float mean, deviation, one_by_deviation;
  } channels[kChannels];
};
// Values are 0 to 255, or with a normalisation (value / 255 - mean) / deviation.
// REQUIRES: no normalisation of u8
FinishTable finish_table(Element element, const std::optional<Normalisation>& normalisation);

// `from` / `by`, given 1 / `by`: a quotient that may be wrong in its last bit, and what it lacks.
BF_ANYWHERE inline float quotient(float from, float by, float one_by) {
  const float near = from * one_by;
  return fmaf(fmaf(-near, by, from), one_by, near);
}
BF_ANYWHERE inline float finished(FinishTable::By by, const FinishTable::Channel& channel,
                                  float value) {
  if (by == FinishTable::By::product) return fmaf(value, channel.factor, channel.offset);
  const float share = quotient(value, 255.0f, 1.0f / 255.0f);
  return quotient(share - channel.mean, channel.deviation, channel.one_by_deviation);
}

}  // namespace batchflow::kernels
