// A batch of pictures, decoded already, of any sizes: cropped, scaled antialiased, mirrored,
// changed in colour, normalised, cast and laid out, in one go.
//
// on_cpu is the reference, on_gpu does the same on a GPU; both give the bytes that the pipeline's
// steps of the same names give (runtime/prepare). Pictures may lie anywhere that the GPU can read,
// as in a cache of samples in its memory: so this is also the gather out of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/colour.h"
#include "kernels/element.h"
#include "kernels/picture.h"

namespace batchflow::kernels {

struct PictureTask {
  // RGB, eight bits each; `stride` bytes from row to row. A GPU reads whole words of four bytes,
  // and kReadSlack bytes behind the last pixel: they must be readable, whatever they hold.
  const std::uint8_t* pixels = nullptr;
  std::size_t stride = 0;
  Extent2 extent;
  Scaling scaling;
  Jitter jitter;        // after the scaling
  void* out = nullptr;  // scaling.window, finished
};
inline constexpr std::size_t kReadSlack = 16;

// What the tasks of a batch need at most, which the CPU finds out before a GPU begins.
struct PictureLimits {
  Extent2 window;               // the largest width and the largest height
  double across = 0, down = 0;  // the greatest scales, at least 1
  bool scales = false;          // some task is more than a crop
  bool jitters = false;         // some task changes colours

  void add(const PictureTask& task);
};

struct PictureBatch {
  const PictureTask* tasks = nullptr;  // they and the table lie in memory of the processor
  std::uint32_t count = 0;
  PictureLimits limits;
  Element element = Element::f32;
  bool planes = true;  // channels in planes of their own; false: beside each other
  const FinishTable* table = nullptr;
  std::byte* scratch = nullptr;  // scratch_bytes(count, limits), on the GPU aligned to 256
};
inline constexpr std::size_t kJitterHeader = 256;
std::size_t scratch_bytes(std::uint32_t count, const PictureLimits& limits);

// Of one picture of which colours change: the sum of its greys, and the picture before the change.
constexpr std::size_t jitter_scratch(Extent2 window) {
  const auto bytes =
      static_cast<std::size_t>(window.width) * static_cast<std::size_t>(window.height) * kChannels;
  return (kJitterHeader + bytes + kReadSlack + 255) / 256 * 256;
}

// Empty, or what is wrong with a task, which no function checks again.
const char* problem(const PictureTask& task);

namespace on_cpu {
void prepare_pictures(const PictureBatch& batch, Stream stream = nullptr);
}
namespace on_gpu {
// Throws DeviceError when the GPU refuses. What goes wrong later is seen when the stream is next
// waited for.
void prepare_pictures(const PictureBatch& batch, Stream stream);
}  // namespace on_gpu

}  // namespace batchflow::kernels
