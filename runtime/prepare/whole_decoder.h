// What is common to decoders that always decode the whole picture.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "runtime/prepare/decode.h"

namespace batchflow::prepare {

class WholeDecoder : public Decoder {
 public:
  Extent2 extent() const override { return extent_; }
  Extent2 decoded_most(const Box&) const override { return extent_; }
  std::string_view problem() const override { return problem_; }
  bool ran_out_of_memory() const override { return no_memory_; }
  void end() override {}
  Bytes held() const override { return 0; }
  void drop() override {}

 protected:
  void begin() {
    problem_.clear();
    no_memory_ = false;
    extent_ = {};
  }
  bool say(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }
  bool ends_early() { return say("the data ends early"); }
  bool has_no_memory() {
    no_memory_ = true;
    return say("out of memory");
  }
  // False: the header claims no pixels, or more than are allowed.
  bool take_extent(std::uint64_t width, std::uint64_t height, const DecodeLimits& limits) {
    if (width == 0 || height == 0) return say("it has no pixels");
    if (memory::counted_product(width, height) > limits.pixels_most)
      return say(fmt::format("{} x {} pixels, of which {} are allowed", width, height,
                             limits.pixels_most));
    if (width > kSideMost || height > kSideMost)
      return say(fmt::format("{} x {} pixels: a side is too long", width, height));
    extent_ = {static_cast<int>(width), static_cast<int>(height)};
    return true;
  }

  Bytes pixels() const {
    return static_cast<Bytes>(extent_.width) * static_cast<Bytes>(extent_.height);
  }

 private:
  static constexpr std::uint64_t kSideMost = 0x7fffffff;

  Extent2 extent_;
  std::string problem_;
  bool no_memory_ = false;
};

}  // namespace batchflow::prepare
