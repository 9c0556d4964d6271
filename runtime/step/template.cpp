// A step of a pipeline: adds noise to each number of a picture, drawn anew for each sample.
#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "batchflow_step.hpp"

namespace step = batchflow::step;

class Noise {
 public:
  // What stands beside `plugin:` in the pipeline. Throw what is wrong with it.
  explicit Noise(step::Parameters& parameters)
      : reach_(static_cast<int>(parameters.integer("reach", 10, 0, 255))) {}

  // What it makes of samples like `input`; the same again, here. Throw if it cannot.
  step::Array output(const step::Array& input) const {
    if (!step::is_picture(input)) throw std::runtime_error("write it behind decode");
    return input;
  }

  // One sample. All that it may depend on is in `in`, the parameters and `draws`; throw what is
  // wrong with the sample, and another takes its place.
  void run(const step::Input& in, step::Output& out, step::Draws& draws) const {
    const auto span = static_cast<std::uint64_t>(2 * reach_ + 1);
    const auto from = in.values<std::uint8_t>();
    const auto to = out.values<std::uint8_t>();
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = static_cast<std::uint8_t>(
          std::clamp(from[i] + static_cast<int>(draws.below(span)) - reach_, 0, 255));
  }

 private:
  int reach_;
};

// Its name, and its version: raise it when the same input gives another output. `deterministic` in
// place of `random` if it draws nothing.
BATCHFLOW_STEP(Noise, "noise", "1", random)
