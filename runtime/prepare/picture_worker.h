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
#include "runtime/step/step_runner.h"

namespace batchflow {

class PictureWorker {
 public:
  PictureWorker(const Kernels& kernels, StepRunner& plugins)
      : kernels_(kernels), plugins_(plugins), resampler_(kernels) {}

  // Writes the picture to `out`; `keep`, if given, gets the decoded form. False: it is corrupt, or
  // a plugin failed.
  bool run(const PicturePlan& plan, std::span<const std::byte> bytes, bool decoded,
           std::uint64_t draw_key, std::byte* out, std::vector<std::byte>* keep);
  std::string_view problem() const { return problem_; }

 private:
  struct Pad {
    Box box;  // of the picture; black where that is not
  };
  struct ByPlugin {
    const PictureByPlugin* step;
    std::uint64_t seed;
    Extent2 size;
  };
  using Operation = std::variant<Scaling, Pad, Jitter, ByPlugin>;

  // Adds what steps [from, to) do to a picture of `extent_`, and follows its size.
  bool choose(const PicturePlan& plan, std::size_t from, std::size_t to, std::uint64_t draw_key);
  bool choose_one(const StepKind& step, std::uint64_t seed, std::uint64_t pixels_most);
  void choose_scaling(const Box& from, Extent2 to);
  void choose_crop(const Box& box);
  void choose_flip();

  bool open(std::span<const std::byte> bytes, const DecodeLimits& limits);
  // Carries out what was chosen, on what shows_ has, or on what is decoded first.
  bool carry_out(bool decode);
  bool carry_out(const Scaling& scaling);
  bool carry_out(const Pad& pad);
  bool carry_out(const Jitter& jitter);
  bool carry_out(const ByPlugin& made);
  // The whole of what is shown from now on.
  bool show(PictureBuffer& picture);
  PictureBuffer& other_buffer();
  bool fail(std::string_view problem);

  const Kernels& kernels_;
  StepRunner& plugins_;
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
