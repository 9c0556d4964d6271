// The twin of horizontal_flip, for pictures of any size.
#include <algorithm>
#include <stdexcept>

#include "batchflow_step.hpp"

namespace step = batchflow::step;

class Flip {
 public:
  explicit Flip(step::Parameters& parameters)
      : probability_(parameters.number("probability", 0.5, 0, 1)) {}
  step::Array output(const step::Array& input) const {
    if (!step::is_picture(input)) throw std::runtime_error("it flips pictures");
    return input;
  }
  void run(const step::Input& in, step::Output& out, step::Draws& draws) const {
    const std::size_t height = in.shape()[0], width = in.shape()[1];
    const bool flips = draws.unit() < probability_;
    const auto from = in.values<unsigned char>();
    const auto to = out.values<unsigned char>();
    for (std::size_t y = 0; y < height; ++y) {
      for (std::size_t x = 0; x < width; ++x) {
        const std::size_t source = flips ? width - 1 - x : x;
        std::copy_n(&from[(y * width + source) * 3], 3, &to[(y * width + x) * 3]);
      }
    }
  }

 private:
  double probability_;
};
BATCHFLOW_STEP(Flip, "flip", "1", random)
