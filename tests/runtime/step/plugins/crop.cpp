// The twin of centre_crop, where the picture is larger.
#include <algorithm>
#include <stdexcept>

#include "batchflow_step.hpp"

namespace step = batchflow::step;

class Crop {
 public:
  explicit Crop(step::Parameters& parameters)
      : size_(static_cast<std::size_t>(parameters.integer("size", 8, 1, 1000))) {}
  step::Array output(const step::Array& input) const {
    if (!step::is_picture(input)) throw std::runtime_error("it crops pictures");
    return {step::Type::u8, {size_, size_, 3}, false, ""};
  }
  void run(const step::Input& in, step::Output& out, step::Draws& draws) const {
    if (draws.draw() != step::Draws(0).draw()) throw std::runtime_error("it was given a seed");
    const std::size_t height = in.shape()[0], width = in.shape()[1];
    if (height < size_ || width < size_) throw std::runtime_error("the picture is too small");
    const std::size_t top = half(height - size_), left = half(width - size_);
    for (std::size_t y = 0; y < size_; ++y)
      std::copy_n(&in.values<unsigned char>()[((top + y) * width + left) * 3], size_ * 3,
                  &out.values<unsigned char>()[y * size_ * 3]);
  }

 private:
  // To the nearest, halves to the even one, as torchvision has it.
  static std::size_t half(std::size_t rest) { return (rest + (rest / 2 & 1)) / 2; }

  std::size_t size_;
};
BATCHFLOW_STEP(Crop, "crop", "1", deterministic)
