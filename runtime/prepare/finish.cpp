#include "runtime/prepare/finish.h"

#include <cstring>

#include "core/base/check.h"

namespace batchflow::prepare {
namespace {

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

template <class T>
void write_by_table(Extent2 extent, int y, const std::uint8_t* pixel,
                    const std::array<std::array<T, 256>, kChannels>& table, bool planes,
                    std::byte* out) {
  const auto width = static_cast<std::size_t>(extent.width);
  const std::size_t plane = width * static_cast<std::size_t>(extent.height) * sizeof(T);
  const std::size_t step = (planes ? 1 : kChannels) * sizeof(T);
  const std::size_t between = planes ? plane : sizeof(T);
  std::byte* at = out + static_cast<std::size_t>(y) * width * step;
  for (std::size_t x = 0; x < width; ++x, pixel += kChannels, at += step) {
    put(at, table[0][pixel[0]]);
    put(at + between, table[1][pixel[1]]);
    put(at + 2 * between, table[2][pixel[2]]);
  }
}

kernels::Element element_of(batch::ElementType type) {
  switch (type) {
    case batch::ElementType::f16:
      return kernels::Element::f16;
    case batch::ElementType::bf16:
      return kernels::Element::bf16;
    case batch::ElementType::f32:
      return kernels::Element::f32;
    default:
      return kernels::Element::u8;
  }
}

}  // namespace

bool Finish::supports(batch::ElementType type) {
  return type == batch::ElementType::u8 || type == batch::ElementType::f16 ||
         type == batch::ElementType::bf16 || type == batch::ElementType::f32;
}

Finish::Finish(batch::ElementType type, const std::optional<Normalisation>& normalisation,
               bool planes)
    : type_(type), planes_(planes) {
  BF_CHECK(supports(type) && !(normalisation && type == batch::ElementType::u8));
  const kernels::FinishTable table = kernels::finish_table(element_of(type), normalisation);
  for (std::size_t c = 0; c < kChannels; ++c) {
    for (std::size_t i = 0; i < 256; ++i) {
      words_[c][i] = table.bits[c][i];
      halves_[c][i] = static_cast<std::uint16_t>(table.bits[c][i]);
    }
  }
  if (!normalisation || type != batch::ElementType::f32 || !planes) return;
  for (std::size_t c = 0; c < kChannels; ++c)
    channels_[c] = {normalisation->mean[c], normalisation->deviation[c]};
  const Kernels* const wide = wide_kernels();
  by_arithmetic_ = wide && arithmetic_gives_words(*wide);
}

bool Finish::arithmetic_gives_words(const Kernels& kernels) const {
  if (!kernels.normalise) return false;
  std::array<std::uint8_t, 256 * kChannels> pixels;
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<std::uint8_t>(i / kChannels);
  Table<std::uint32_t> made;
  kernels.normalise(
      pixels.data(), 256, channels_.data(), reinterpret_cast<std::byte*>(made[0].data()),
      reinterpret_cast<std::byte*>(made[1].data()), reinterpret_cast<std::byte*>(made[2].data()));
  return made == words_;
}

void Finish::write(const PictureView& picture, const Kernels& kernels, std::byte* out) const {
  for (int y = 0; y < picture.extent.height; ++y)
    write_row(picture.extent, y, picture.row(y), kernels, out);
}

void Finish::write_row(Extent2 extent, int y, const std::uint8_t* row, const Kernels& kernels,
                       std::byte* out) const {
  const auto width = static_cast<std::size_t>(extent.width);
  const std::size_t plane = width * static_cast<std::size_t>(extent.height);
  if (by_arithmetic_ && kernels.normalise) {
    std::byte* const at = out + static_cast<std::size_t>(y) * width * sizeof(float);
    return kernels.normalise(row, width, channels_.data(), at, at + plane * sizeof(float),
                             at + 2 * plane * sizeof(float));
  }
  if (type_ == batch::ElementType::f32) return write_by_table(extent, y, row, words_, planes_, out);
  if (type_ != batch::ElementType::u8) return write_by_table(extent, y, row, halves_, planes_, out);
  auto* const at = reinterpret_cast<std::uint8_t*>(out) +
                   static_cast<std::size_t>(y) * width * (planes_ ? 1 : kChannels);
  if (planes_)
    kernels.split(row, width, at, at + plane, at + 2 * plane);
  else
    std::memcpy(at, row, width * kChannels);
}

}  // namespace batchflow::prepare
