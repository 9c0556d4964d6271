// The last step of a picture: it is normalised, and written in its element type and layout to where
// the batch has it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/element.h"
#include "runtime/batch/batch_spec.h"
#include "runtime/prepare/kernels.h"
#include "runtime/prepare/picture.h"

namespace batchflow::prepare {

using kernels::Normalisation;

// A channel has 256 values, so whatever is done to each of them is a table.
class Finish {
 public:
  // Values are 0 to 255, or with a normalisation (value / 255 - mean) / deviation, in f32.
  Finish(batch::ElementType type, const std::optional<Normalisation>& normalisation, bool planes);

  static bool supports(batch::ElementType type);  // u8, f16, bf16 or f32
  batch::ElementType type() const { return type_; }
  bool has_planes() const { return planes_; }
  void write(const PictureView& picture, const Kernels& kernels, std::byte* out) const;
  // Row `y` of a picture of this size.
  void write_row(Extent2 extent, int y, const std::uint8_t* row, const Kernels& kernels,
                 std::byte* out) const;

 private:
  template <class T>
  using Table = std::array<std::array<T, 256>, kChannels>;

  batch::ElementType type_;
  bool planes_;  // channels lie apart
  Table<std::uint16_t> halves_{};
  Table<std::uint32_t> words_{};
  // Arithmetic makes planes of f32 faster than a table. It is used if it gives the table's values.
  std::array<ChannelNorm, kChannels> channels_{};
  bool by_arithmetic_ = false;  // it gives the table's values

  bool arithmetic_gives_words(const Kernels& kernels) const;
};

}  // namespace batchflow::prepare
