// A picture in memory: rows of RGB, eight bits each. Also parts of pictures, and the decoded form,
// which is a picture with its size in front.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/picture.h"
#include "runtime/memory/scratch.h"

namespace batchflow::prepare {

using kernels::Box;
using kernels::Extent2;
using kernels::Filter;
using kernels::kChannels;
using kernels::whole;

struct PictureView {
  const std::uint8_t* pixels = nullptr;
  std::size_t stride = 0;  // bytes from one row to the next
  Extent2 extent;

  const std::uint8_t* row(int y) const { return pixels + static_cast<std::size_t>(y) * stride; }
  PictureView part(const Box& box) const {
    return {row(box.y) + static_cast<std::size_t>(box.x) * kChannels, stride, box.extent()};
  }
};

// Memory for one picture. It grows to the largest, and stays until it is dropped. The size stands
// in front of the pixels, so that it is also the decoded form.
class PictureBuffer {
 public:
  static constexpr std::size_t kHeader = 16;

  // REQUIRES: no side is negative. Does not overflow.
  static constexpr Bytes bytes(Extent2 extent) {
    return memory::counted_sum(
        kHeader, memory::counted_product(memory::counted_product(static_cast<Bytes>(extent.width),
                                                                 static_cast<Bytes>(extent.height)),
                                         kChannels));
  }

  // Pixels are not initialised. Throws std::bad_alloc.
  void reset(Extent2 extent);
  // From the next reset() on the picture is made in this memory, which has bytes(extent), if it has
  // this extent. Null: in its own again.
  void make_in(std::byte* memory, Extent2 extent) {
    foreign_ = memory;
    foreign_extent_ = extent;
  }
  // REQUIRES: reset() was called since
  bool is_foreign() const { return foreign_ && at_ == foreign_; }
  std::uint8_t* row(int y) { return pixels() + static_cast<std::size_t>(y) * stride(); }
  std::uint8_t* pixels() { return at(); }
  std::size_t stride() const { return static_cast<std::size_t>(extent_.width) * kChannels; }
  Extent2 extent() const { return extent_; }
  PictureView view() const { return {at(), stride(), extent_}; }
  Bytes held() const { return memory_.bytes(); }
  void drop() {
    memory_.drop();
    at_ = nullptr;
  }

 private:
  std::uint8_t* at() const { return reinterpret_cast<std::uint8_t*>(at_) + kHeader; }

  memory::ScratchMemory memory_;
  std::byte* at_ = nullptr;  // of the picture
  std::byte* foreign_ = nullptr;
  Extent2 foreign_extent_;
  Extent2 extent_;
};

// The decoded form: `BFPX`, width, height, channels, each of 32 bits, then rows without gaps. `out`
// has PictureBuffer::bytes(extent).
void write_decoded(const PictureView& picture, std::byte* out);
// Writes the header alone, for a picture with its pixels there already.
void write_decoded_header(Extent2 extent, std::byte* out);
// False when the bytes are not a decoded form.
bool read_decoded(std::span<const std::byte> bytes, PictureView& picture);

}  // namespace batchflow::prepare
