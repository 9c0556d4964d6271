// Scales a part of a picture exactly as Pillow's resize (and so torchvision's on pictures) does:
// bilinear and bicubic are antialiased, first across, then down, with rounding to whole numbers
// between; nearest takes one pixel for each.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/prepare/finish.h"
#include "runtime/prepare/kernels.h"
#include "runtime/prepare/picture.h"
#include "runtime/prepare/window_table.h"

namespace batchflow::prepare {

using kernels::Scaling;

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
    void add_axis(std::size_t first, Bytes sources, int window_count);
    void grow(std::size_t part, Bytes bytes) { parts_[part] = std::max(parts_[part], bytes); }

    // For each axis taps, weights and exact ones; then windows, their weights, what lies between
    // the axes, and a row.
    std::array<Bytes, 10> parts_{};
  };
  Bytes held() const;
  void drop();

  // `source` shows only the part of the picture that begins at (x, y) of `origin`.
  void run(const Scaling& scaling, const PictureView& source, const Box& origin,
           PictureBuffer& out);
  // The same, and the picture is finished row by row, while a row is in the processor's cache.
  void run(const Scaling& scaling, const PictureView& source, const Box& origin,
           const Finish& finish, std::byte* out);

 private:
  struct Axis {
    std::vector<Taps> taps;
    std::vector<std::int32_t> weights;
    std::vector<double> exact;
    bool copies = false;  // each pixel is one of the source
    bool shifts = false;  // and they follow each other, as there

    void plan(int from, int to, Filter filter, int window_first, int window_count);
    template <class Weights>
    void plan(const Weights& filter, int window_first);
    Bytes held() const {
      return memory::bytes_of(taps) + memory::bytes_of(weights) + memory::bytes_of(exact);
    }
    void drop();
  };

  // Prepares to make the rows of the result, from the first on.
  void begin(const Scaling& scaling, const PictureView& source, const Box& origin);
  // Row `y` of the result: where it lies already, or made in `memory`.
  const std::uint8_t* make_row(int y, std::uint8_t* memory);
  // Scales the next rows of the source across.
  void make_rows_across();
  void fetch_first_rows() const;

  const Kernels& kernels_;
  Axis across_;
  Axis down_;
  WindowTable windows_;
  memory::ScratchMemory between_;
  memory::ScratchMemory row_;
  // What is scaled: the source, then what is made of it across, of which the first `made_` rows are
  // there.
  PictureView source_, scaled_;
  std::size_t row_bytes_ = 0;
  int made_ = 0;
};

}  // namespace batchflow::prepare
