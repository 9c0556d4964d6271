// Changes that make each pixel from the pixel itself and from those around it.
#pragma once

#include "runtime/memory/scratch.h"
#include "runtime/prepare/picture.h"

namespace batchflow::prepare {

// As torchvision's adjust_sharpness on Pillow's pictures: 0 is smoothed, 1 is unchanged.
struct Sharpening {
  float factor = 1;
};
void sharpen(const Sharpening& sharpening, const PictureView& picture, PictureBuffer& out);

// As torchvision's gaussian_blur, but first across, then down. So sums are rounded otherwise, and
// now and then a value differs by 1.
struct Blur {
  Extent2 reach;  // pixels on each side
  double sigma = 1;
};

inline constexpr int kReachMost = 31;

class Blurrer {
 public:
  // What run() takes at most, beside the picture that it makes.
  static Bytes needs(const Blur& blur, Extent2 picture);
  void run(const Blur& blur, const PictureView& picture, PictureBuffer& out);
  Bytes held() const { return memory_.bytes(); }
  void drop() { memory_.drop(); }

 private:
  memory::ScratchMemory memory_;
};

}  // namespace batchflow::prepare
