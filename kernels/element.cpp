#include "kernels/element.h"

#include <bit>

namespace batchflow::kernels {

std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Subnormal: the sum rounds at the last bit of a half.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3f000000u));
  }
  const std::uint32_t even = magnitude >> 13 & 1;
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + even) >> 13));
}

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

namespace {

std::uint32_t bits_of(Element element, float value) {
  switch (element) {
    case Element::u8:
      return static_cast<std::uint32_t>(value);
    case Element::f16:
      return to_f16(value);
    case Element::bf16:
      return to_bf16(value);
    case Element::f32:
      break;
  }
  return std::bit_cast<std::uint32_t>(value);
}

bool gives(const FinishTable& table, Element element, FinishTable::By by) {
  for (std::size_t c = 0; c < kChannels; ++c)
    for (std::size_t i = 0; i < 256; ++i)
      if (bits_of(element, finished(by, table.channels[c], static_cast<float>(i))) !=
          table.bits[c][i])
        return false;
  return true;
}

}  // namespace

FinishTable finish_table(Element element, const std::optional<Normalisation>& normalisation) {
  FinishTable table;
  for (std::size_t c = 0; c < kChannels; ++c) {
    FinishTable::Channel& channel = table.channels[c];
    channel = {1, 0, 0, 1, 1};
    if (normalisation) {
      const float mean = normalisation->mean[c], deviation = normalisation->deviation[c];
      channel = {static_cast<float>(1 / (255.0 * deviation)),
                 static_cast<float>(-static_cast<double>(mean) / deviation), mean, deviation,
                 1 / deviation};
    }
    for (std::size_t i = 0; i < 256; ++i) {
      auto value = static_cast<float>(i);
      if (normalisation) value = (value / 255.0f - channel.mean) / channel.deviation;
      table.bits[c][i] = bits_of(element, value);
    }
  }
  table.by = gives(table, element, FinishTable::By::product)     ? FinishTable::By::product
             : gives(table, element, FinishTable::By::quotients) ? FinishTable::By::quotients
                                                                 : FinishTable::By::table;
  return table;
}

}  // namespace batchflow::kernels
