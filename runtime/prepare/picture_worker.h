// Carries out the steps on one picture: chooses what happens to it from its size and its draws
// alone, and then does that with as little decoding and copying as it needs.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "runtime/prepare/decode.h"
#include "runtime/prepare/plan.h"
#include "runtime/prepare/resample.h"

namespace batchflow {

class PictureWorker {
 public:
  explicit PictureWorker(const Kernels& kernels) : kernels_(kernels), resampler_(kernels) {}

  // Writes the picture to `out`; `keep`, if given, gets the decoded form. False: it is corrupt.
  bool run(const PicturePlan& plan, std::span<const std::byte> bytes, bool decoded,
           std::uint64_t draw_key, std::byte* out, std::vector<std::byte>* keep);
  std::string_view problem() const { return problem_; }

 private:
  struct Pad {
    Box box;  // of the picture; black where that is not
  };
  using Operation = std::variant<Scaling, Pad, Jitter>;

  // Adds what steps [from, to) do to a picture of `extent_`, and follows its size.
  bool choose(const PicturePlan& plan, std::size_t from, std::size_t to, std::uint64_t draw_key);
  bool choose_one(const StepKind& step, Random draws, std::uint64_t pixels_most);
  void choose_scaling(const Box& from, Extent2 to);
  void choose_crop(const Box& box);
  void choose_flip();

  bool open(std::span<const std::byte> bytes, const DecodeLimits& limits);
  // Carries out what was chosen, on what shows_ has, or on what is decoded first.
  bool carry_out(bool decode);
  void carry_out(const Scaling& scaling);
  void carry_out(const Pad& pad);
  void carry_out(const Jitter& jitter);
  PictureBuffer& other_buffer();
  bool fail(std::string_view problem);

  const Kernels& kernels_;
  Resampler resampler_;
  std::unique_ptr<Decoder> jpeg_ = make_jpeg_decoder();
  std::unique_ptr<Decoder> png_ = make_png_decoder();
  Decoder* decoder_ = nullptr;
  std::vector<Operation> operations_;
  Extent2 extent_;
  PictureBuffer buffers_[2];
  // What there is of the picture: its part `origin_`, in one of the buffers or in foreign memory.
  PictureView shows_;
  Box origin_;
  PictureBuffer* holds_ = nullptr;
  std::string problem_;
};

}  // namespace batchflow
