// Scales a part of a picture, antialiased and bilinear, exactly as Pillow's resize (and so
// torchvision's on pictures) does: first across, then down, with rounding to whole numbers between.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/prepare/kernels.h"
#include "runtime/prepare/picture.h"

namespace batchflow::prepare {

// The part `from` of a picture is scaled to `to`; `window` is the wanted part of that, mirrored if
// `flip`. What lies outside `from` has no influence. A crop is a scaling to the same size.
struct Scaling {
  Box from;
  Extent2 to;
  Box window;
  bool flip = false;
};

// The part of the picture that a scaling reads.
Box needed(const Scaling& scaling);

// It keeps the memory that it needs from one picture to the next, until it is dropped.
class Resampler {
 public:
  explicit Resampler(const Kernels& kernels) : kernels_(kernels) {}

  // What run() takes at most, beside the picture that it makes: of each table and each buffer, as
  // each grows to the largest of all scalings.
  class Needs {
   public:
    void add(const Scaling& scaling);
    Bytes sum() const;

   private:
    void add_axis(std::size_t first, int from, int to, int window_count);

    // For each axis taps, weights and exact ones, then columns, scaled and between.
    std::array<Bytes, 9> parts_{};
  };
  Bytes held() const;
  void drop();

  // `source` shows only the part of the picture that begins at (x, y) of `origin`.
  void run(const Scaling& scaling, const PictureView& source, const Box& origin,
           PictureBuffer& out);

 private:
  struct Axis {
    std::vector<Taps> taps;
    std::vector<std::int32_t> weights;
    std::vector<double> exact;
    bool copies = false;  // no scaling

    void plan(int from, int to, int window_first, int window_count);
    Bytes held() const {
      return memory::bytes_of(taps) + memory::bytes_of(weights) + memory::bytes_of(exact);
    }
    void drop();
  };

  // Scales all of `source` into between_.
  void run_across(const PictureView& source);

  const Kernels& kernels_;
  Axis across_;
  Axis down_;
  memory::ScratchMemory columns_;
  memory::ScratchMemory scaled_;
  PictureBuffer between_;
};

}  // namespace batchflow::prepare
