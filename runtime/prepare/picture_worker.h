// Carries out the steps on one picture. It first chooses what happens to the picture, from its size
// and its draws alone. Then it does that with as little decoding and copying as possible. So the
// memory that it takes is known, and granted or not, before any of it is taken.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/prepare/mask.h"
#include "runtime/prepare/neighbours.h"
#include "runtime/prepare/operations.h"
#include "runtime/prepare/picture_kinds.h"
#include "runtime/prepare/plan.h"
#include "runtime/prepare/resample.h"
#include "runtime/prepare/sample_scratch.h"
#include "runtime/step/step_runner.h"

namespace batchflow::prepare {

// A mask that goes where the picture goes.
struct MaskAlong {
  std::span<const std::byte> bytes;
  std::string_view field;
  std::uint32_t fill = 0;
  batch::ElementType type = batch::ElementType::u8;
  std::byte* out = nullptr;
};

inline constexpr std::string_view kGivenUp = "it is not wanted any more";

class PictureWorker {
 public:
  PictureWorker(const Kernels& kernels, step::StepRunner& plugins, SampleScratch& scratch)
      : kernels_(kernels), plugins_(plugins), scratch_(scratch), resampler_(kernels) {}

  // Memory of so many bytes for the decoded form, or null.
  using Keep = std::function<std::byte*(Bytes)>;
  struct Input {
    std::span<const std::byte> bytes;  // encoded, or the decoded form
    bool decoded = false;
    std::uint64_t draw_key = 0;
    const Keep* keep = nullptr;
    Bytes beside = 0;  // what else the sample takes of the scratch memory
    const std::atomic<bool>* is_given_up = nullptr;
    // Where something goes along with the picture: the masks, and, of a decoded form, the size that
    // the picture had before.
    bool is_followed = false;
    std::span<const MaskAlong> masks{};
    Extent2 stored_extent{};
  };
  // Writes the picture to `out`, its decoded form to the memory of `keep`, if given, and each mask
  // to its `out`. False: it is corrupt, a plugin failed, or it is given up (Preparer::Input).
  // Throws std::bad_alloc.
  bool run(const PicturePlan& plan, const Input& input, std::byte* out);
  // Writes all views of the picture, to row `index` of their fields.
  bool run_views(const CompiledPipeline& pipeline, const Input& input,
                 const batch::BlockWriter& out, std::uint32_t index);
  // Frames: the same is done to each, by the same draws. First the memory for it is taken; then
  // each frame is a call. False: as run().
  bool begin_frames(const PicturePlan& plan, Extent2 extent, const Input& input);
  bool run_frame(const PicturePlan& plan, const PictureView& frame, std::uint64_t draw_key,
                 std::byte* out) {
    return run_view(plan, frame, draw_key, out);
  }
  // The operations on fields that go along with the picture of the last run(), and the size that
  // the picture had before. They do not depend on what was kept. REQUIRES: is_followed
  std::span<const Operation> followed() const { return followed_->all(); }
  Extent2 stored_extent() const { return stored_extent_; }
  std::string_view problem() const { return problem_; }

  // The picture is done with.
  void end();
  // What stays for the next picture, until drop().
  Bytes held() const;
  void drop();

 private:
  bool open(std::span<const std::byte> bytes, const DecodeLimits& limits);
  bool reserve(const Box& wanted, bool decode, bool in_foreign, Bytes beside);
  // Begins with the picture as it was read. `kept`: the size of the decoded form, where it is kept.
  bool begin(const PicturePlan& plan, const Input& input, Extent2& kept);
  bool choose_followed(const PicturePlan& plan, const Input& input);
  bool add_view_needs(const CompiledPipeline& pipeline, std::uint64_t draw_key, Bytes& needs);
  bool run_view(const PicturePlan& plan, const PictureView& base, std::uint64_t draw_key,
                std::byte* out);
  // Decodes into `memory`, if given, which has room for all of the picture.
  bool decode(const Box& wanted, std::byte* memory);
  // Reads the mask's header, and adds what the mask takes.
  bool add_needs(const MaskAlong& mask, const DecodeLimits& limits, Bytes& needs);
  bool run(const MaskAlong& mask, const DecodeLimits& limits);
  Decoder* open(const MaskAlong& mask, const DecodeLimits& limits);
  bool fail(const MaskAlong& mask, std::string_view problem);
  // Carries out operations [from, to) on what shows_ has.
  bool carry_out(std::size_t from, std::size_t to);
  bool carry_out(const Operation& operation);
  bool carry_out(const Scaling& scaling);
  bool carry_out(const Pad& pad);
  bool carry_out(const Warp& warp);
  bool carry_out(const Jitter& jitter);
  bool carry_out(const PointChange& change);
  bool carry_out(const Sharpening& sharpening);
  bool carry_out(const Blur& blur);
  bool carry_out(const ByPlugin& made);
  // From now on all of `picture` is shown.
  bool show(PictureBuffer& picture);
  PictureBuffer& other_buffer();
  // The picture, where it may be changed: if it lies in foreign memory, a copy.
  PictureBuffer& own_picture();
  void finish(const PicturePlan& plan, const Scaling* last, std::uint64_t draw_key, std::byte* out);
  bool fail(std::string_view problem);

  const Kernels& kernels_;
  step::StepRunner& plugins_;
  SampleScratch& scratch_;
  Resampler resampler_;
  Blurrer blurrer_;
  PictureDecoders decoders_;
  Decoder* decoder_ = nullptr;
  Operations operations_;
  Operations of_view_, of_followers_;
  const Operations* followed_ = &operations_;
  Extent2 stored_extent_;
  MaskDecoders mask_decoders_;
  std::vector<Operation> of_mask_;
  PictureBuffer buffers_[3];
  // Pictures are made in these two by turns; views begin with the picture in the third.
  std::array<PictureBuffer*, 2> turns_ = {&buffers_[0], &buffers_[1]};
  // What there is of the picture: its part `origin_`, in one of the buffers or in foreign memory.
  PictureView shows_;
  Box origin_;
  PictureBuffer* holds_ = nullptr;
  const std::atomic<bool>* is_given_up_ = nullptr;
  std::string problem_;
};

}  // namespace batchflow::prepare
