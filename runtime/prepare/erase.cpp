#include "runtime/prepare/erase.h"

#include <cmath>
#include <cstring>

#include "kernels/element.h"

namespace batchflow::prepare {
namespace {

// Numbers of the normal distribution, two at a time, by Marsaglia's polar method.
class NormalDraws {
 public:
  explicit NormalDraws(Random& random) : random_(random) {}

  float next() {
    if (has_other_) {
      has_other_ = false;
      return other_;
    }
    double x = 0, y = 0, square = 0;
    do {
      x = 2 * random_.unit() - 1;
      y = 2 * random_.unit() - 1;
      square = x * x + y * y;
    } while (square >= 1 || square == 0);
    const double factor = std::sqrt(-2 * logarithm(square) / square);
    other_ = static_cast<float>(y * factor);
    has_other_ = true;
    return static_cast<float>(x * factor);
  }

 private:
  Random& random_;
  float other_ = 0;
  bool has_other_ = false;
};

void put(float value, batch::ElementType type, std::byte* at) {
  if (type == batch::ElementType::f32) {
    std::memcpy(at, &value, sizeof value);
  } else if (type == batch::ElementType::u8) {
    *at = static_cast<std::byte>(value);
  } else {
    const std::uint16_t half =
        type == batch::ElementType::f16 ? kernels::to_f16(value) : kernels::to_bf16(value);
    std::memcpy(at, &half, sizeof half);
  }
}

}  // namespace

void erase(const RandomErasing& step, Random& random, Extent2 picture, batch::ElementType type,
           bool planes, std::byte* out) {
  if (random.unit() >= step.probability) return;
  const Box box = random_part(picture, step.area, step.ratio, random);
  NormalDraws normal(random);
  std::array<float, kChannels> values = step.values;
  if (step.with == RandomErasing::With::random_colour)
    for (float& value : values) value = normal.next();
  const auto width = static_cast<std::size_t>(picture.width);
  const std::size_t plane = width * static_cast<std::size_t>(picture.height);
  const std::size_t bytes = batch::element_bytes(type);
  for (std::size_t c = 0; c < kChannels; ++c) {
    for (int y = box.y; y < box.y + box.height; ++y) {
      for (int x = box.x; x < box.x + box.width; ++x) {
        const std::size_t pixel = static_cast<std::size_t>(y) * width + static_cast<std::size_t>(x);
        const std::size_t at = planes ? c * plane + pixel : pixel * kChannels + c;
        put(step.with == RandomErasing::With::random ? normal.next() : values[c], type,
            out + at * bytes);
      }
    }
  }
}

}  // namespace batchflow::prepare
