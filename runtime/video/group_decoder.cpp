#include "runtime/video/group_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "runtime/memory/scratch.h"
#include "runtime/video/libraries.h"
#include "runtime/video/rgb_frames.h"

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

}  // namespace

bool has_video() {
  return Libraries::get() != nullptr;
}

std::string video_build() {
  const Libraries* const av = Libraries::get();
  if (!av) return "without video";
  return fmt::format("libavcodec {} libswscale {}", av->avcodec_version() >> 16,
                     av->swscale_version() >> 16);
}

// The library's objects for one group.
struct GroupDecoder::Library {
  const Libraries* const av = Libraries::get();
  AVCodecContext* context = nullptr;
  AVPacket* packet = nullptr;
  AVFrame* frame = nullptr;
  RgbFrames rgb{av};

  void end() {
    if (!av) return;
    av->avcodec_free_context(&context);
    av->av_packet_free(&packet);
    av->av_frame_free(&frame);
    rgb.end();
  }
  ~Library() { end(); }
};

GroupDecoder::GroupDecoder() : library_(new Library, [](Library* library) { delete library; }) {}
GroupDecoder::~GroupDecoder() = default;

bool GroupDecoder::fail(std::string_view problem) {
  problem_ = problem;
  return false;
}

bool GroupDecoder::open(std::span<const std::byte> bytes) {
  if (!library_->av) return fail("FFmpeg's libraries are not installed here");
  const std::string_view problem = read_group(bytes, group_);
  return problem.empty() || fail(problem);
}

Bytes GroupDecoder::needs() const {
  const Bytes pixels = Bytes{group_.width} * group_.height;
  Bytes bytes = 0;
  for (const Packet& packet : group_.packets) bytes = std::max(bytes, packet.bytes.size());
  const Bytes held = kFramesHeld + (group_.turn == Turn{} ? 0 : 1);
  return memory::counted_sum(memory::counted_product(pixels, held * kPixelBytes),
                             kLibraryTakes + 2 * bytes);
}

namespace {

// Opens the decoder. Empty: it is open; else what is wrong.
std::string_view open_codec(const Libraries* av, const Group& group, AVCodecContext*& context) {
  const AVCodec* const codec = av->avcodec_find_decoder(id_of(group.codec));
  if (!codec) return "FFmpeg has no decoder for it here";
  context = av->avcodec_alloc_context3(codec);
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
        static_cast<std::uint8_t*>(av->av_mallocz(size + AV_INPUT_BUFFER_PADDING_SIZE));
    if (!context->extradata) throw std::bad_alloc();
    std::memcpy(context->extradata, group.decoder_data.data(), size);
    context->extradata_size = static_cast<int>(size);
  }
  const int opened = av->avcodec_open2(context, codec, nullptr);
  if (opened == AVERROR(ENOMEM)) throw std::bad_alloc();
  return opened < 0 ? "its decoder cannot be opened" : "";
}

}  // namespace

bool GroupDecoder::decode(std::uint32_t last, const Place& place,
                          const std::function<bool()>& stop) {
  Library& library = *library_;
  const Libraries* const av = library.av;
  library.end();
  problem_.clear();
  if (const std::string_view problem = open_codec(av, group_, library.context); !problem.empty())
    return fail(problem);
  library.packet = av->av_packet_alloc();
  library.frame = av->av_frame_alloc();
  if (!library.packet || !library.frame) throw std::bad_alloc();
  std::uint32_t made = 0;
  std::size_t next = 0;
  bool at_end = false;
  while (made <= last) {
    if (stop && stop()) return false;
    const int got = av->avcodec_receive_frame(library.context, library.frame);
    if (got == AVERROR(ENOMEM)) throw std::bad_alloc();
    if (got == AVERROR(EAGAIN) && !at_end) {
      if (next == group_.packets.size()) {
        at_end = true;
        av->avcodec_send_packet(library.context, nullptr);
        continue;
      }
      const Packet& packet = group_.packets[next++];
      const int size = static_cast<int>(packet.bytes.size());
      if (av->av_new_packet(library.packet, size) < 0) throw std::bad_alloc();
      std::memcpy(library.packet->data, packet.bytes.data(), packet.bytes.size());
      library.packet->pts = packet.time;
      if (next == 1) library.packet->flags |= AV_PKT_FLAG_KEY;
      const int sent = av->avcodec_send_packet(library.context, library.packet);
      av->av_packet_unref(library.packet);
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
    if (std::uint8_t* const to = place(made); to && !library.rgb.make(frame, group_.turn, to))
      return fail("its pixels cannot be made RGB");
    av->av_frame_unref(library.frame);
    ++made;
  }
  return true;
}

void GroupDecoder::end() {
  library_->end();
  group_ = {};
}

}  // namespace batchflow::video
