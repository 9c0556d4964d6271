#include "runtime/video/group_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "runtime/memory/scratch.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavutil/mem.h>
#include <libswscale/swscale.h>
}

namespace batchflow::video {
namespace {

// Frames that a decoder may hold at a time: those that others refer to, and those that wait for
// their turn. Each may have four channels of 16 bits, and what is known of its motion.
constexpr Bytes kFramesHeld = 24;
constexpr Bytes kPixelBytes = 8;
constexpr Bytes kLibraryTakes = Bytes{16} << 20;

AVCodecID id_of(Codec codec) {
  switch (codec) {
    case Codec::h264:
      return AV_CODEC_ID_H264;
    case Codec::hevc:
      return AV_CODEC_ID_HEVC;
    case Codec::vp8:
      return AV_CODEC_ID_VP8;
    case Codec::vp9:
      return AV_CODEC_ID_VP9;
    case Codec::av1:
      return AV_CODEC_ID_AV1;
    case Codec::mpeg4:
      return AV_CODEC_ID_MPEG4;
    case Codec::mjpeg:
      return AV_CODEC_ID_MJPEG;
  }
  return AV_CODEC_ID_NONE;
}

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

}  // namespace

bool has_video() {
  return true;
}

std::string video_build() {
  return fmt::format("libavcodec {} libswscale {}", avcodec_version() >> 16,
                     swscale_version() >> 16);
}

// The library's objects for one group.
struct GroupDecoder::Library {
  AVCodecContext* context = nullptr;
  AVPacket* packet = nullptr;
  AVFrame* frame = nullptr;
  SwsContext* scaler = nullptr;

  void end() {
    avcodec_free_context(&context);
    av_packet_free(&packet);
    av_frame_free(&frame);
    sws_freeContext(scaler);
    scaler = nullptr;
  }
  ~Library() { end(); }
};

GroupDecoder::GroupDecoder() : library_(new Library, [](Library* library) { delete library; }) {
  av_log_set_level(AV_LOG_QUIET);  // problem() says what is wrong
}
GroupDecoder::~GroupDecoder() = default;

bool GroupDecoder::fail(std::string_view problem) {
  problem_ = problem;
  return false;
}

bool GroupDecoder::open(std::span<const std::byte> bytes) {
  const std::string_view problem = read_group(bytes, group_);
  return problem.empty() || fail(problem);
}

Bytes GroupDecoder::needs() const {
  const Bytes pixels = Bytes{group_.width} * group_.height;
  Bytes bytes = 0;
  for (const Packet& packet : group_.packets) bytes = std::max(bytes, packet.bytes.size());
  return memory::counted_sum(memory::counted_product(pixels, kFramesHeld * kPixelBytes),
                             kLibraryTakes + 2 * bytes);
}

namespace {

// Opens the decoder. Empty: it is open; else what is wrong.
std::string_view open_codec(const Group& group, AVCodecContext*& context) {
  const AVCodec* const codec = avcodec_find_decoder(id_of(group.codec));
  if (!codec) return "FFmpeg has no decoder for it here";
  context = avcodec_alloc_context3(codec);
  if (!context) throw std::bad_alloc();
  context->width = static_cast<int>(group.width);
  context->height = static_cast<int>(group.height);
  // With the edges that decoders have around a picture.
  context->max_pixels = (std::int64_t{group.width} + 256) * (std::int64_t{group.height} + 256);
  context->thread_count = 1;
  context->err_recognition = AV_EF_CRCCHECK | AV_EF_BITSTREAM | AV_EF_BUFFER | AV_EF_EXPLODE;
  context->error_concealment = 0;
  context->flags |= AV_CODEC_FLAG_BITEXACT;
  context->pkt_timebase = {1, 1'000'000};
  const std::size_t size = group.decoder_data.size();
  if (size > 0) {
    context->extradata =
        static_cast<std::uint8_t*>(av_mallocz(size + AV_INPUT_BUFFER_PADDING_SIZE));
    if (!context->extradata) throw std::bad_alloc();
    std::memcpy(context->extradata, group.decoder_data.data(), size);
    context->extradata_size = static_cast<int>(size);
  }
  const int opened = avcodec_open2(context, codec, nullptr);
  if (opened == AVERROR(ENOMEM)) throw std::bad_alloc();
  return opened < 0 ? "its decoder cannot be opened" : "";
}

// The converter to RGB for frames as this one.
SwsContext* scaler_for(const AVFrame& frame, SwsContext* before) {
  const auto format = static_cast<AVPixelFormat>(frame.format);
  SwsContext* const made = sws_getCachedContext(
      before, frame.width, frame.height, without_range(format), frame.width, frame.height,
      AV_PIX_FMT_RGB24, SWS_BICUBIC | SWS_ACCURATE_RND | SWS_BITEXACT, nullptr, nullptr, nullptr);
  if (!made) return nullptr;
  const bool is_full = format != without_range(format) || frame.color_range == AVCOL_RANGE_JPEG;
  const int* const matrix = sws_getCoefficients(static_cast<int>(frame.colorspace));
  sws_setColorspaceDetails(made, matrix, is_full ? 1 : 0, sws_getCoefficients(SWS_CS_DEFAULT), 1, 0,
                           1 << 16, 1 << 16);
  return made;
}

}  // namespace

bool GroupDecoder::decode(std::uint32_t last, const Place& place,
                          const std::function<bool()>& stop) {
  Library& library = *library_;
  library.end();
  problem_.clear();
  if (const std::string_view problem = open_codec(group_, library.context); !problem.empty())
    return fail(problem);
  library.packet = av_packet_alloc();
  library.frame = av_frame_alloc();
  if (!library.packet || !library.frame) throw std::bad_alloc();
  std::uint32_t made = 0;
  std::size_t next = 0;
  bool at_end = false;
  while (made <= last) {
    if (stop && stop()) return false;
    const int got = avcodec_receive_frame(library.context, library.frame);
    if (got == AVERROR(ENOMEM)) throw std::bad_alloc();
    if (got == AVERROR(EAGAIN) && !at_end) {
      if (next == group_.packets.size()) {
        at_end = true;
        avcodec_send_packet(library.context, nullptr);
        continue;
      }
      const Packet& packet = group_.packets[next++];
      const int size = static_cast<int>(packet.bytes.size());
      if (av_new_packet(library.packet, size) < 0) throw std::bad_alloc();
      std::memcpy(library.packet->data, packet.bytes.data(), packet.bytes.size());
      library.packet->pts = packet.time;
      if (next == 1) library.packet->flags |= AV_PKT_FLAG_KEY;
      const int sent = avcodec_send_packet(library.context, library.packet);
      av_packet_unref(library.packet);
      if (sent == AVERROR(ENOMEM)) throw std::bad_alloc();
      if (sent < 0) return fail(fmt::format("packet {} of it is damaged", next - 1));
      continue;
    }
    if (got == AVERROR_EOF)
      return fail(fmt::format("it has {} frames, and its head says {}", made, group_.frames));
    if (got < 0) return fail(fmt::format("frame {} of it is damaged", made));
    const AVFrame& frame = *library.frame;
    if ((frame.flags & AV_FRAME_FLAG_CORRUPT) != 0 || frame.decode_error_flags != 0)
      return fail(fmt::format("frame {} of it is damaged", made));
    if (frame.width != static_cast<int>(group_.width) ||
        frame.height != static_cast<int>(group_.height))
      return fail(fmt::format("frame {} of it has {} x {} pixels, and others {} x {}", made,
                              frame.width, frame.height, group_.width, group_.height));
    if (std::uint8_t* const to = place(made)) {
      library.scaler = scaler_for(frame, library.scaler);
      const std::array<std::uint8_t*, 4> planes{to};
      const std::array<int, 4> strides{frame.width * 3};
      if (!library.scaler || sws_scale(library.scaler, frame.data, frame.linesize, 0, frame.height,
                                       planes.data(), strides.data()) != frame.height)
        return fail("its pixels cannot be made RGB");
    }
    av_frame_unref(library.frame);
    ++made;
  }
  return true;
}

void GroupDecoder::end() {
  library_->end();
  group_ = {};
}

}  // namespace batchflow::video
