// Groups of frames into RGB, as `ffmpeg -sws_flags bicubic+accurate_rnd+bitexact` makes it; turned,
// if the group says so.
//
// A group is also corrupt when a frame of it does not decode whole, though a player would show
// something, or when it has fewer frames than its head says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/video/group.h"

namespace batchflow::video {

// Whether this build decodes video.
bool has_video();
// The packages that it needs for that.
inline constexpr std::string_view kVideoPackages =
    "libavformat-dev libavcodec-dev libswscale-dev libavutil-dev";
// Names the library that decides the pixels, as a part of a pipeline's hash.
std::string video_build();

// For one thread.
class GroupDecoder {
 public:
  GroupDecoder();
  ~GroupDecoder();

  // Reads the head. `bytes` must stay until decode() is done. False: see problem().
  bool open(std::span<const std::byte> bytes);
  const Group& group() const { return group_; }
  // What decode() takes at most, beside the frames that it makes.
  Bytes needs() const;

  // Where frame `i` goes, as rows of RGB without gaps, of the size that is shown; null: it is not
  // wanted.
  using Place = std::function<std::uint8_t*(std::uint32_t frame)>;
  // Decodes up to frame `last`, in the order in which they are shown. `stop` is asked between
  // frames. False: see problem(); empty there: it was stopped. Throws std::bad_alloc.
  // REQUIRES: open() was the last call and said true
  bool decode(std::uint32_t last, const Place& place, const std::function<bool()>& stop);
  const std::string& problem() const { return problem_; }

  // Gives up what was taken for the group.
  void end();

 private:
  struct Library;
  bool fail(std::string_view problem);

  Group group_;
  std::unique_ptr<Library, void (*)(Library*)> library_;
  std::string problem_;
};

}  // namespace batchflow::video
