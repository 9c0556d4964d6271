// Makes RGB of the frames that decoders give, and turns them.
#pragma once

#include <cstdint>

#include "runtime/video/libraries.h"
#include "runtime/video/turn.h"

namespace batchflow::video {

class RgbFrames {
 public:
  // REQUIRES: the libraries are there when a frame is made
  explicit RgbFrames(const Libraries* libraries) : av_(libraries) {}
  ~RgbFrames() { end(); }
  RgbFrames(const RgbFrames&) = delete;

  // Writes rows of RGB without gaps. False: the frame's pixels cannot be made RGB. Throws
  // std::bad_alloc.
  bool make(const AVFrame& frame, Turn turn, std::uint8_t* to);
  // Gives up what stays from frame to frame.
  void end();

 private:
  bool scale(const AVFrame& frame, std::uint8_t* to, int stride);
  AVFrame& have_between(AVPixelFormat format, int width, int height);

  const Libraries* const av_;
  SwsContext* scaler_ = nullptr;
  AVFrame* between_ = nullptr;  // a frame that is turned and not yet RGB, or the other way around
};

}  // namespace batchflow::video
