#include "kernels/picture_batch.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace batchflow::kernels {
namespace {

double scale_of(int from, int to) {
  return std::max(1.0, static_cast<double>(from) / to);
}

bool inside(const Box& box, Extent2 extent) {
  return box.width > 0 && box.height > 0 && box.x >= 0 && box.y >= 0 &&
         box.width <= extent.width - box.x && box.height <= extent.height - box.y;
}

}  // namespace

void PictureLimits::add(const PictureTask& task) {
  const Scaling& s = task.scaling;
  window.width = std::max(window.width, s.window.width);
  window.height = std::max(window.height, s.window.height);
  across = std::max(across, scale_of(s.from.width, s.to.width));
  down = std::max(down, scale_of(s.from.height, s.to.height));
  scales = scales || s.from.extent() != s.to;
  jitters = jitters || !changes_nothing(task.jitter);
}

const char* problem(const PictureTask& task) {
  const Scaling& s = task.scaling;
  if (!task.pixels || !task.out) return "it has no pixels, or nowhere to go";
  if (!inside(s.from, task.extent)) return "the part that is scaled is not in the picture";
  if (s.to.width <= 0 || s.to.height <= 0) return "it would be scaled to nothing";
  if (!inside(s.window, s.to)) return "the wanted part is not in the scaled picture";
  if (s.filter != Filter::bilinear || s.upside_down)
    return "only the bilinear filter, and no mirroring upside down, is done for whole batches";
  if (task.stride / kChannels < static_cast<std::size_t>(task.extent.width))
    return "its rows are longer than the distance between them";
  return nullptr;
}

// For a picture of which colours change: the picture before that, and the sum of its greys.
std::size_t scratch_bytes(std::uint32_t count, const PictureLimits& limits) {
  return limits.jitters ? count * jitter_scratch(limits.window) : 0;
}

namespace on_cpu {
namespace {

// The weights of one axis, for one pixel after the other.
struct Weights {
  int first = 0;
  std::vector<int> values;

  Weights(int from, int to, int pixel) {
    if (from == to) {
      first = pixel;
      values = {1 << kWeightBits};
      return;
    }
    const Triangle triangle(from, to);
    first = triangle.first(pixel);
    double sum = 0;
    for (int i = first; i < triangle.end(pixel); ++i) sum += triangle.weight(pixel, i);
    for (int i = first; i < triangle.end(pixel); ++i)
      values.push_back(fixed_weight(triangle.weight(pixel, i), sum));
  }
  // Of bytes that lie `stride` apart, from that of pixel 0 on.
  std::uint8_t sum(const std::uint8_t* bytes, std::size_t stride) const {
    int sum = 1 << (kWeightBits - 1);
    for (std::size_t k = 0; k < values.size(); ++k)
      sum += bytes[(static_cast<std::size_t>(first) + k) * stride] * values[k];
    return static_cast<std::uint8_t>(std::min(sum >> kWeightBits, 255));
  }
};

// Across first, then down, with rounding to whole numbers between.
void scale(const PictureTask& task, std::vector<std::uint8_t>& out) {
  const Scaling& s = task.scaling;
  const auto row = static_cast<std::size_t>(s.window.width) * kChannels;
  std::vector<std::uint8_t> across(row * static_cast<std::size_t>(s.from.height));
  for (int x = 0; x < s.window.width; ++x) {
    const int made = s.window.x + (s.flip ? s.window.width - 1 - x : x);
    const Weights weights(s.from.width, s.to.width, made);
    for (int y = 0; y < s.from.height; ++y) {
      const std::uint8_t* from = task.pixels +
                                 static_cast<std::size_t>(s.from.y + y) * task.stride +
                                 static_cast<std::size_t>(s.from.x) * kChannels;
      for (int c = 0; c < kChannels; ++c)
        across[static_cast<std::size_t>(y) * row + static_cast<std::size_t>(x * kChannels + c)] =
            weights.sum(from + c, kChannels);
    }
  }
  out.resize(row * static_cast<std::size_t>(s.window.height));
  for (int y = 0; y < s.window.height; ++y) {
    const Weights weights(s.from.height, s.to.height, s.window.y + y);
    for (std::size_t i = 0; i < row; ++i)
      out[static_cast<std::size_t>(y) * row + i] = weights.sum(across.data() + i, row);
  }
}

void change_colours(const Jitter& jitter, std::vector<std::uint8_t>& pixels) {
  for (const ColourChange change : jitter.order) {
    if (changes_nothing(change, jitter.factor_of(change))) continue;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < pixels.size(); i += kChannels)
      sum += static_cast<std::uint64_t>(grey_of(&pixels[i]));
    const int mean = mean_grey(sum, pixels.size() / kChannels);
    for (std::size_t i = 0; i < pixels.size(); i += kChannels)
      change_pixel(change, jitter.factor_of(change), mean, &pixels[i]);
  }
}

void finish(const PictureBatch& batch, const std::vector<std::uint8_t>& pixels, void* out) {
  const std::size_t size = bytes_of(batch.element), count = pixels.size() / kChannels;
  auto* const at = static_cast<std::byte*>(out);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const std::size_t channel = i % kChannels;
    const std::size_t to = batch.planes ? channel * count + i / kChannels : i;
    // The bytes of a number in memory begin with the lowest.
    std::memcpy(at + to * size, &batch.table->bits[channel][pixels[i]], size);
  }
}

}  // namespace

void prepare_pictures(const PictureBatch& batch, Stream) {
  std::vector<std::uint8_t> pixels;
  for (std::uint32_t i = 0; i < batch.count; ++i) {
    const PictureTask& task = batch.tasks[i];
    scale(task, pixels);
    change_colours(task.jitter, pixels);
    finish(batch, pixels, task.out);
  }
}

}  // namespace on_cpu
}  // namespace batchflow::kernels
