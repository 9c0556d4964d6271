// Masks: pictures that have a number for each pixel, such as a class. A mask goes through the same
// operations as its picture, by the nearest pixel, but for changes of colour.
//
// On its way a mask is a picture, and the three bytes of a pixel are one number of 24 bits, the
// lowest byte first. So what moves pixels moves masks, too.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/batch/batch_spec.h"
#include "runtime/prepare/decode.h"
#include "runtime/prepare/operations.h"

namespace batchflow::prepare {

// The decoders of masks, for one thread.
class MaskDecoders {
 public:
  // The decoder for a PNG or a NumPy file. Null: see problem().
  Decoder* find(std::span<const std::byte> bytes);
  std::string_view problem() const { return "a mask is a PNG or a NumPy file, and it is neither"; }

  void end();
  Bytes held() const;
  void drop();

 private:
  std::unique_ptr<Decoder> png_, npy_;
};

// A number as a pixel. REQUIRES: number < 2^24
Colour mask_pixel(std::uint32_t number);
inline constexpr std::uint32_t kMaskNumberMost = (1u << 24) - 1;

// What is done to a mask where `operations` are done to its picture. Pixels from outside the mask
// are `fill`.
void follow_with_mask(std::span<const Operation> operations, std::uint32_t fill,
                      std::vector<Operation>& out);

// Whether a mask can be of this type: one of whole numbers, or f32.
bool is_mask_type(batch::ElementType type);
// The greatest number of a mask of this type. REQUIRES: is_mask_type(type)
std::uint32_t mask_number_most(batch::ElementType type);
// False: a number is not one of this type; `out` has been written in part.
bool write_mask(const PictureView& mask, batch::ElementType type, std::byte* out);

}  // namespace batchflow::prepare
