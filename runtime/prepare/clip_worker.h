// Carries out a clip: chooses frames of a group, has them decoded, and each prepared as a picture.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/memory/scratch.h"
#include "runtime/prepare/picture_worker.h"
#include "runtime/prepare/plan.h"
#include "runtime/video/group_decoder.h"

namespace batchflow::prepare {

// Which frames of a group a clip has: as many as it asks for, each `every`th. They begin at a frame
// that is drawn, or lie in the middle of the group. In a shorter group the last frame stands for
// each that is missing.
std::vector<std::uint32_t> clip_frames(const Clip& clip, std::uint32_t frames, std::uint64_t seed);

// For one thread.
class ClipWorker {
 public:
  using Keep = std::function<std::byte*(Bytes)>;
  struct Input {
    std::span<const std::byte> bytes;  // a group, or the decoded form: all of its frames
    bool decoded = false;
    std::uint64_t draw_key = 0;
    const Keep* keep = nullptr;
    Bytes beside = 0;
    const std::atomic<bool>* is_given_up = nullptr;
  };
  // Writes the frames to `out`, one behind the other, and all frames of the group to the memory of
  // `keep`, if given. False: as PictureWorker::run(). Throws std::bad_alloc.
  bool run(const CompiledPipeline& pipeline, const Input& input, PictureWorker& pictures,
           std::byte* out);
  const std::string& problem() const { return problem_; }

  void end() { decoder_.end(); }
  Bytes held() const { return frames_.bytes(); }
  void drop() { frames_.drop(); }

 private:
  bool decode(const Input& input, const std::vector<std::uint32_t>& wanted, std::uint8_t* to,
              bool all);
  bool fail(std::string_view problem);

  video::GroupDecoder decoder_;
  memory::ScratchMemory frames_;
  std::string problem_;
};

}  // namespace batchflow::prepare
