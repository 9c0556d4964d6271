// The taps of a row that is scaled across, in the form in which the wide kernels read them
// (kernels.h, Windows). It is made once for each picture.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/memory/scratch.h"
#include "runtime/prepare/kernels.h"

namespace batchflow::prepare {

class WindowTable {
 public:
  // The bytes of a row of so many pixels, rounded up to a whole vector.
  static std::size_t row_bytes(std::size_t pixels);
  // What plan() takes at most for a row that is scaled from one width to another, if a pixel takes
  // `taps_most`: its windows, and their weights.
  struct Needs {
    Bytes windows = 0, weights = 0;
  };
  static Needs needs(int from, int to, std::size_t pixels, Bytes taps_most);

  // A row of the source has `source_bytes`. There are no windows for one that is shorter than a
  // window.
  // REQUIRES: each of `taps` has weights for as many taps as the one with most, 0 for those beyond
  void plan(std::span<const Taps> taps, const std::int32_t* weights, std::size_t source_bytes,
            WindowForm form = WindowForm::numbers);
  Windows view() const {
    return {each_, taps_, windows_, weights_.data(),
            reinterpret_cast<const std::int8_t*>(weights_.data())};
  }
  Bytes held() const {
    return memory::bytes_of(windows_) + memory::bytes_of(weights_) + memory::bytes_of(digits_);
  }
  void drop();

 private:
  // Where the first tap of a byte is, and the weights of all; null: it has none.
  struct Byte {
    const std::int32_t* weights = nullptr;
    std::size_t at = 0;
    std::size_t first_weight = 0;  // the index of its weights among all
  };
  using Group = std::array<Byte, Window::kGroup>;
  // Sets the window to the taps of these bytes from `tap` on.
  void set(std::size_t window, const Group& group, int tap);
  void set_digits(std::size_t window, const Group& group, int tap, std::size_t begin);
  void split_weights(const std::int32_t* weights, std::size_t count);
  // Numbers of `weights_` that a window has.
  std::size_t weights_each() const;

  WindowForm form_ = WindowForm::numbers;
  int each_ = 0, taps_ = 0;
  int count_ = 0;  // taps of a pixel, at most
  std::size_t source_bytes_ = 0;
  std::vector<Window> windows_;
  std::vector<std::int32_t> weights_;  // or digits
  // Of all weights, the high ones, then the middle and the low ones, `digits_each_` of each.
  std::vector<std::int8_t> digits_;
  std::size_t digits_each_ = 0;
};

}  // namespace batchflow::prepare
