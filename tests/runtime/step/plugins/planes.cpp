// The twin of {cast, to: f32} with {layout, order: nchw}: of pictures, numbers in planes.
#include <stdexcept>

#include "batchflow_step.hpp"

namespace step = batchflow::step;

class Planes {
 public:
  explicit Planes(step::Parameters&) {}
  step::Array output(const step::Array& input) const {
    if (!step::is_picture(input)) throw std::runtime_error("it takes pictures");
    return {step::Type::f32, {3, input.shape[0], input.shape[1]}, false, ""};
  }
  void run(const step::Input& in, step::Output& out, step::Draws&) const {
    const std::size_t pixels = in.shape()[0] * in.shape()[1];
    for (std::size_t i = 0; i < pixels; ++i)
      for (std::size_t c = 0; c < 3; ++c)
        out.values<float>()[c * pixels + i] = in.values<unsigned char>()[i * 3 + c];
  }
};
BATCHFLOW_STEP(Planes, "planes", "1", deterministic)
