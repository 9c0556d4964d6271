#include <fmt/format.h>

#include "runtime/prepare/step_readers.h"
#include "runtime/video/group_decoder.h"

namespace batchflow::prepare {
namespace {

constexpr std::int64_t kEveryMost = 1024;

ReadStep read(config::ConfigSection& section, bool anywhere) {
  section.require("frames", "write 8: how many frames a sample gets");
  Clip step;
  step.frames =
      static_cast<std::uint32_t>(section.integer("frames", 1, 1, std::int64_t{video::kFramesMost}));
  step.every = static_cast<std::uint32_t>(section.integer("every", 1, 1, kEveryMost));
  step.anywhere = anywhere;
  if (!video::has_video())
    section.refuse("step", "this build decodes no video",
                   fmt::format("install {} and build again", video::kVideoPackages));
  return {step,
          fmt::format("frames={} every={} by {}", step.frames, step.every, video::video_build())};
}

}  // namespace

ReadStep read_clip(config::ConfigSection& section) {
  return read(section, false);
}

ReadStep read_random_clip(config::ConfigSection& section) {
  return read(section, true);
}

}  // namespace batchflow::prepare
