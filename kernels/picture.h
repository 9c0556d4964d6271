// Pictures, parts of them, and the filter by which a part is scaled. Both the CPU's and the GPU's
// preparation use these.
#pragma once

#include <cstdint>

#include "kernels/where.h"

namespace batchflow::kernels {

inline constexpr int kChannels = 3;

struct Extent2 {
  int width = 0;
  int height = 0;
  friend constexpr bool operator==(const Extent2&, const Extent2&) = default;
};

struct Box {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
  BF_ANYWHERE Extent2 extent() const { return {width, height}; }
  friend constexpr bool operator==(const Box&, const Box&) = default;
};

BF_ANYWHERE inline Box whole(Extent2 extent) {
  return {0, 0, extent.width, extent.height};
}

enum class Filter : std::uint8_t { bilinear, bicubic, nearest };

// The part `from` of a picture is scaled to `to`; `window` is the wanted part of that, mirrored if
// `flip`. What lies outside `from` has no influence. A crop is a scaling to the same size.
struct Scaling {
  Box from;
  Extent2 to;
  Box window;
  bool flip = false;
  bool upside_down = false;
  Filter filter = Filter::bilinear;
};

// Weights are fixed-point numbers with this many bits below one. The weights of one pixel sum up to
// one, but for rounding.
inline constexpr int kWeightBits = 22;

// The triangle of the linear filter, as wide as the scale when a picture is made smaller. With the
// same numbers it gives Pillow's weights.
struct Triangle {
  double scale;
  double width;
  int from;

  BF_ANYWHERE Triangle(int from_size, int to_size)
      : scale(static_cast<double>(from_size) / to_size),
        width(scale > 1.0 ? scale : 1.0),
        from(from_size) {}

  BF_ANYWHERE double centre(int pixel) const { return (pixel + 0.5) * scale; }
  BF_ANYWHERE int first(int pixel) const {
    const int at = static_cast<int>(centre(pixel) - width + 0.5);
    return at > 0 ? at : 0;
  }
  BF_ANYWHERE int end(int pixel) const {
    const int at = static_cast<int>(centre(pixel) + width + 0.5);
    return at < from ? at : from;
  }
  BF_ANYWHERE double weight(int pixel, int source) const {
    const double distance = (source - centre(pixel) + 0.5) * (1.0 / width);
    const double weight = 1.0 - (distance < 0 ? -distance : distance);
    return weight > 0.0 ? weight : 0.0;
  }
};
// A weight as a fixed-point number, given the sum of all weights of its pixel.
BF_ANYWHERE inline int fixed_weight(double weight, double sum) {
  const double fixed = weight / sum * (1 << kWeightBits);
  return static_cast<int>(fixed < 0 ? fixed - 0.5 : fixed + 0.5);
}

}  // namespace batchflow::kernels
