#include "runtime/video/rgb_frames.h"

#include <array>
#include <new>

namespace batchflow::video {
namespace {

constexpr int kRgb = 3;

// Formats of which FFmpeg says by their name that values use the whole range.
AVPixelFormat without_range(AVPixelFormat format) {
  switch (format) {
    case AV_PIX_FMT_YUVJ420P:
      return AV_PIX_FMT_YUV420P;
    case AV_PIX_FMT_YUVJ422P:
      return AV_PIX_FMT_YUV422P;
    case AV_PIX_FMT_YUVJ444P:
      return AV_PIX_FMT_YUV444P;
    case AV_PIX_FMT_YUVJ440P:
      return AV_PIX_FMT_YUV440P;
    default:
      return format;
  }
}

// Whether frames of this format can be turned plane by plane, and then are of this format, too. By
// quarters that needs colours that are as dense one way as the other.
bool can_turn_planes(const AVPixFmtDescriptor& format, Turn turn) {
  for (int i = 0; i < format.nb_components; ++i)
    if (format.comp[i].plane != i || format.comp[i].step > 2) return false;
  return (format.flags & (AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM)) == 0 &&
         (!turn.transposed || format.log2_chroma_w == format.log2_chroma_h);
}

// Plane `i` of a frame. Colours may have one value for `1 << shift` pixels.
Plane plane_of(const AVFrame& frame, int i, int shift_across, int shift_down) {
  const auto values = [](int pixels, int shift) {
    return static_cast<std::uint32_t>((pixels + (1 << shift) - 1) >> shift);
  };
  return {frame.data[i], frame.linesize[i], values(frame.width, shift_across),
          values(frame.height, shift_down)};
}

}  // namespace

bool RgbFrames::make(const AVFrame& frame, Turn turn, std::uint8_t* to) {
  if (turn == Turn{}) return scale(frame, to, frame.width * kRgb);
  const int width = turn.transposed ? frame.height : frame.width;
  const int height = turn.transposed ? frame.width : frame.height;
  const auto format = static_cast<AVPixelFormat>(frame.format);
  const AVPixFmtDescriptor* const kind = av_->av_pix_fmt_desc_get(format);
  if (!kind) return false;
  if (!can_turn_planes(*kind, turn)) {
    AVFrame& rgb = have_between(AV_PIX_FMT_RGB24, frame.width, frame.height);
    if (!scale(frame, rgb.data[0], rgb.linesize[0])) return false;
    turn_plane(plane_of(rgb, 0, 0, 0), kRgb, turn, to, width * kRgb);
    return true;
  }
  // First, as ffmpeg does it: how colours are spread over pixels is not the same along rows and
  // along columns.
  AVFrame& turned = have_between(format, width, height);
  turned.color_range = frame.color_range;
  turned.colorspace = frame.colorspace;
  for (int i = 0; i < kind->nb_components; ++i) {
    const bool is_colour = i == 1 || i == 2;
    turn_plane(plane_of(frame, i, is_colour ? kind->log2_chroma_w : 0,
                        is_colour ? kind->log2_chroma_h : 0),
               static_cast<std::size_t>(kind->comp[i].step), turn, turned.data[i],
               turned.linesize[i]);
  }
  return scale(turned, to, width * kRgb);
}

bool RgbFrames::scale(const AVFrame& frame, std::uint8_t* to, int stride) {
  const auto format = static_cast<AVPixelFormat>(frame.format);
  scaler_ = av_->sws_getCachedContext(
      scaler_, frame.width, frame.height, without_range(format), frame.width, frame.height,
      AV_PIX_FMT_RGB24, SWS_BICUBIC | SWS_ACCURATE_RND | SWS_BITEXACT, nullptr, nullptr, nullptr);
  if (!scaler_) return false;
  const bool is_full = format != without_range(format) || frame.color_range == AVCOL_RANGE_JPEG;
  const int* const matrix = av_->sws_getCoefficients(static_cast<int>(frame.colorspace));
  av_->sws_setColorspaceDetails(scaler_, matrix, is_full ? 1 : 0,
                                av_->sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
  const std::array<std::uint8_t*, 4> planes{to};
  const std::array<int, 4> strides{stride};
  return av_->sws_scale(scaler_, frame.data, frame.linesize, 0, frame.height, planes.data(),
                        strides.data()) == frame.height;
}

AVFrame& RgbFrames::have_between(AVPixelFormat format, int width, int height) {
  if (between_ && between_->format == format && between_->width == width &&
      between_->height == height)
    return *between_;
  av_->av_frame_free(&between_);
  between_ = av_->av_frame_alloc();
  if (!between_) throw std::bad_alloc();
  between_->format = format;
  between_->width = width;
  between_->height = height;
  if (av_->av_frame_get_buffer(between_, 0) < 0) {
    av_->av_frame_free(&between_);
    throw std::bad_alloc();
  }
  return *between_;
}

void RgbFrames::end() {
  if (!av_) return;
  av_->sws_freeContext(scaler_);
  scaler_ = nullptr;
  av_->av_frame_free(&between_);
}

}  // namespace batchflow::video
