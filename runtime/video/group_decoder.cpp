#include "runtime/video/group_decoder.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <optional>
#include <type_traits>

#include "runtime/memory/scratch.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavutil/frame.h>
#include <libavutil/log.h>
#include <libavutil/mem.h>
#include <libswscale/swscale.h>
}

namespace batchflow::video {
namespace {

// FFmpeg's libraries. They bring some hundred others, so they are loaded with the first pipeline
// that takes clips, and a service without one has nothing of them.
struct Libraries {
  decltype(&::avcodec_find_decoder) avcodec_find_decoder = nullptr;
  decltype(&::avcodec_alloc_context3) avcodec_alloc_context3 = nullptr;
  decltype(&::avcodec_free_context) avcodec_free_context = nullptr;
  decltype(&::avcodec_open2) avcodec_open2 = nullptr;
  decltype(&::avcodec_send_packet) avcodec_send_packet = nullptr;
  decltype(&::avcodec_receive_frame) avcodec_receive_frame = nullptr;
  decltype(&::avcodec_version) avcodec_version = nullptr;
  decltype(&::av_packet_alloc) av_packet_alloc = nullptr;
  decltype(&::av_packet_free) av_packet_free = nullptr;
  decltype(&::av_new_packet) av_new_packet = nullptr;
  decltype(&::av_packet_unref) av_packet_unref = nullptr;
  decltype(&::av_frame_alloc) av_frame_alloc = nullptr;
  decltype(&::av_frame_free) av_frame_free = nullptr;
  decltype(&::av_frame_unref) av_frame_unref = nullptr;
  decltype(&::av_mallocz) av_mallocz = nullptr;
  decltype(&::av_log_set_level) av_log_set_level = nullptr;
  decltype(&::sws_getCachedContext) sws_getCachedContext = nullptr;
  decltype(&::sws_freeContext) sws_freeContext = nullptr;
  decltype(&::sws_getCoefficients) sws_getCoefficients = nullptr;
  decltype(&::sws_setColorspaceDetails) sws_setColorspaceDetails = nullptr;
  decltype(&::sws_scale) sws_scale = nullptr;
  decltype(&::swscale_version) swscale_version = nullptr;

  // Null: they are not installed.
  static const Libraries* get() {
    static const std::optional<Libraries> loaded = load();
    return loaded ? &*loaded : nullptr;
  }

 private:
  static void* open(std::string_view name, int version) {
    return dlopen(fmt::format("lib{}.so.{}", name, version).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  static std::optional<Libraries> load() {
    void* const util = open("avutil", LIBAVUTIL_VERSION_MAJOR);
    void* const codec = open("avcodec", LIBAVCODEC_VERSION_MAJOR);
    void* const scale = open("swscale", LIBSWSCALE_VERSION_MAJOR);
    if (!util || !codec || !scale) return std::nullopt;
    Libraries libraries;
    bool all = true;
    const auto take = [&all](void* library, const char* name, auto& function) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      all = all && function;
    };
    take(codec, "avcodec_find_decoder", libraries.avcodec_find_decoder);
    take(codec, "avcodec_alloc_context3", libraries.avcodec_alloc_context3);
    take(codec, "avcodec_free_context", libraries.avcodec_free_context);
    take(codec, "avcodec_open2", libraries.avcodec_open2);
    take(codec, "avcodec_send_packet", libraries.avcodec_send_packet);
    take(codec, "avcodec_receive_frame", libraries.avcodec_receive_frame);
    take(codec, "avcodec_version", libraries.avcodec_version);
    take(codec, "av_packet_alloc", libraries.av_packet_alloc);
    take(codec, "av_packet_free", libraries.av_packet_free);
    take(codec, "av_new_packet", libraries.av_new_packet);
    take(codec, "av_packet_unref", libraries.av_packet_unref);
    take(util, "av_frame_alloc", libraries.av_frame_alloc);
    take(util, "av_frame_free", libraries.av_frame_free);
    take(util, "av_frame_unref", libraries.av_frame_unref);
    take(util, "av_mallocz", libraries.av_mallocz);
    take(util, "av_log_set_level", libraries.av_log_set_level);
    take(scale, "sws_getCachedContext", libraries.sws_getCachedContext);
    take(scale, "sws_freeContext", libraries.sws_freeContext);
    take(scale, "sws_getCoefficients", libraries.sws_getCoefficients);
    take(scale, "sws_setColorspaceDetails", libraries.sws_setColorspaceDetails);
    take(scale, "sws_scale", libraries.sws_scale);
    take(scale, "swscale_version", libraries.swscale_version);
    if (!all) return std::nullopt;
    libraries.av_log_set_level(AV_LOG_QUIET);  // problem() says what is wrong
    return libraries;
  }
};

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
  SwsContext* scaler = nullptr;

  void end() {
    if (!av) return;
    av->avcodec_free_context(&context);
    av->av_packet_free(&packet);
    av->av_frame_free(&frame);
    av->sws_freeContext(scaler);
    scaler = nullptr;
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
  return memory::counted_sum(memory::counted_product(pixels, kFramesHeld * kPixelBytes),
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

// The converter to RGB for frames as this one.
SwsContext* scaler_for(const Libraries* av, const AVFrame& frame, SwsContext* before) {
  const auto format = static_cast<AVPixelFormat>(frame.format);
  SwsContext* const made = av->sws_getCachedContext(
      before, frame.width, frame.height, without_range(format), frame.width, frame.height,
      AV_PIX_FMT_RGB24, SWS_BICUBIC | SWS_ACCURATE_RND | SWS_BITEXACT, nullptr, nullptr, nullptr);
  if (!made) return nullptr;
  const bool is_full = format != without_range(format) || frame.color_range == AVCOL_RANGE_JPEG;
  const int* const matrix = av->sws_getCoefficients(static_cast<int>(frame.colorspace));
  av->sws_setColorspaceDetails(made, matrix, is_full ? 1 : 0,
                               av->sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
  return made;
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
    if (std::uint8_t* const to = place(made)) {
      library.scaler = scaler_for(av, frame, library.scaler);
      const std::array<std::uint8_t*, 4> planes{to};
      const std::array<int, 4> strides{frame.width * 3};
      if (!library.scaler ||
          av->sws_scale(library.scaler, frame.data, frame.linesize, 0, frame.height, planes.data(),
                        strides.data()) != frame.height)
        return fail("its pixels cannot be made RGB");
    }
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
