// Carries out the steps on one picture. It first chooses what happens to the picture, from its size
// and its draws alone. Then it does that with as little decoding and copying as possible. So the
// memory that it takes is known, and granted or not, before any of it is taken.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "runtime/prepare/decode.h"
#include "runtime/prepare/plan.h"
#include "runtime/prepare/resample.h"
#include "runtime/prepare/sample_scratch.h"
#include "runtime/step/step_runner.h"

namespace batchflow::prepare {

inline constexpr std::string_view kGivenUp = "it is not wanted any more";

class PictureWorker {
 public:
  PictureWorker(const Kernels& kernels, step::StepRunner& plugins, SampleScratch& scratch)
      : kernels_(kernels), plugins_(plugins), scratch_(scratch), resampler_(kernels) {}

  // Memory of so many bytes for the decoded form, or null.
  using Keep = std::function<std::byte*(Bytes)>;
  // Writes the picture to `out`, and its decoded form to what `keep`, if given, has for it.
  // `beside`: what else the sample takes of the scratch memory. False: it is corrupt, a plugin
  // failed, or it is given up (Preparer::Input). Throws std::bad_alloc.
  bool run(const PicturePlan& plan, std::span<const std::byte> bytes, bool decoded,
           std::uint64_t draw_key, std::byte* out, const Keep* keep, Bytes beside,
           const std::atomic<bool>* is_given_up = nullptr);
  std::string_view problem() const { return problem_; }

  // The picture is done with.
  void end();
  // What stays for the next picture, until drop().
  Bytes held() const;
  void drop();

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

  // What is done from there on stands alone: the picture before it is kept.
  void begin_part() { part_ = operations_.size(); }
  // The operation that another may become a part of.
  Scaling* last_scaling();
  // Adds what steps [from, to) do to a picture of size `extent_`, and updates the size.
  bool choose(const PicturePlan& plan, std::size_t from, std::size_t to, std::uint64_t draw_key);
  bool choose_one(const StepKind& step, std::uint64_t seed, std::uint64_t pixels_most);
  void choose_scaling(const Box& from, Extent2 to);
  void choose_crop(const Box& box);
  void choose_flip();

  bool open(std::span<const std::byte> bytes, const DecodeLimits& limits);
  bool reserve(const Box& wanted, bool decode, bool in_foreign, Bytes beside);
  // What the operations take at most on a picture of this size, in foreign memory or in a buffer.
  Bytes operations_need(Extent2 extent, bool is_foreign) const;
  // Decodes into `memory`, if given, which has room for all of the picture.
  bool decode(const Box& wanted, std::byte* memory);
  // Carries out operations [from, to) on what shows_ has.
  bool carry_out(std::size_t from, std::size_t to);
  bool carry_out(const Scaling& scaling);
  bool carry_out(const Pad& pad);
  bool carry_out(const Jitter& jitter);
  bool carry_out(const ByPlugin& made);
  // From now on all of `picture` is shown.
  bool show(PictureBuffer& picture);
  PictureBuffer& other_buffer();
  bool fail(std::string_view problem);

  const Kernels& kernels_;
  step::StepRunner& plugins_;
  SampleScratch& scratch_;
  Resampler resampler_;
  std::unique_ptr<Decoder> jpeg_ = make_jpeg_decoder();
  std::unique_ptr<Decoder> png_ = make_png_decoder();
  Decoder* decoder_ = nullptr;
  std::vector<Operation> operations_;
  std::size_t part_ = 0;
  Extent2 extent_;
  PictureBuffer buffers_[2];
  // What there is of the picture: its part `origin_`, in one of the buffers or in foreign memory.
  PictureView shows_;
  Box origin_;
  PictureBuffer* holds_ = nullptr;
  const std::atomic<bool>* is_given_up_ = nullptr;
  std::string problem_;
};

}  // namespace batchflow::prepare
