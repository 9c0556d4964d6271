#include "runtime/video/split/split_video.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <vector>

#include "runtime/video/group.h"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
}

namespace batchflow::video {
namespace {

constexpr int kBuffer = 64 << 10;
constexpr char kFormats[] = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm";
// A file that makes a demuxer look for its end for ever is given up.
constexpr std::chrono::minutes kWithin{10};

std::optional<Codec> codec_of(AVCodecID id) {
  switch (id) {
    case AV_CODEC_ID_H264:
      return Codec::h264;
    case AV_CODEC_ID_HEVC:
      return Codec::hevc;
    case AV_CODEC_ID_VP8:
      return Codec::vp8;
    case AV_CODEC_ID_VP9:
      return Codec::vp9;
    case AV_CODEC_ID_AV1:
      return Codec::av1;
    case AV_CODEC_ID_MPEG4:
      return Codec::mpeg4;
    case AV_CODEC_ID_MJPEG:
      return Codec::mjpeg;
    default:
      return std::nullopt;
  }
}

struct Input {
  const ReadAt& read;
  std::uint64_t at = 0;
  Bytes size = 0;
  std::chrono::steady_clock::time_point until{};

  static int next(void* self, std::uint8_t* into, int bytes) {
    Input& input = *static_cast<Input*>(self);
    if (is_late(self) != 0) return AVERROR_EXIT;
    const std::size_t got = input.read(input.at, {into, static_cast<std::size_t>(bytes)});
    input.at += got;
    return got == 0 ? AVERROR_EOF : static_cast<int>(got);
  }
  static std::int64_t seek(void* self, std::int64_t offset, int whence) {
    Input& input = *static_cast<Input*>(self);
    if ((whence & AVSEEK_SIZE) != 0) return static_cast<std::int64_t>(input.size);
    const auto from = (whence & ~AVSEEK_FORCE) == SEEK_CUR   ? static_cast<std::int64_t>(input.at)
                      : (whence & ~AVSEEK_FORCE) == SEEK_END ? static_cast<std::int64_t>(input.size)
                                                             : 0;
    const std::int64_t to = from + offset;
    if (to < 0) return AVERROR(EINVAL);
    input.at = static_cast<std::uint64_t>(to);
    return to;
  }
  static int is_late(void* self) {
    return std::chrono::steady_clock::now() > static_cast<Input*>(self)->until ? 1 : 0;
  }
};

// A file may name others that are to be read for it: none is.
int refuse_other_file(AVFormatContext*, AVIOContext**, const char*, int, AVDictionary**) {
  return AVERROR(EPERM);
}

struct Opened {
  AVIOContext* io = nullptr;
  AVFormatContext* format = nullptr;
  AVPacket* packet = nullptr;
  ~Opened() {
    av_packet_free(&packet);
    avformat_close_input(&format);
    if (io) {
      av_freep(&io->buffer);
      avio_context_free(&io);
    }
  }
};

// VP8 has frames that are never shown, to which others refer. Elsewhere a packet is a frame.
bool is_shown(Codec codec, std::span<const std::byte> packet) {
  return codec != Codec::vp8 || (!packet.empty() && (std::to_integer<int>(packet[0]) & 0x10) != 0);
}

// Of a file that turns its frames.
std::optional<DisplayMatrix> display_matrix(const AVStream& stream) {
#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(60, 15, 100)
  const AVPacketSideData* const side =
      av_packet_side_data_get(stream.codecpar->coded_side_data, stream.codecpar->nb_coded_side_data,
                              AV_PKT_DATA_DISPLAYMATRIX);
  const std::uint8_t* const data = side ? side->data : nullptr;
  const std::size_t size = side ? side->size : 0;
#else
  std::size_t size = 0;
  const std::uint8_t* const data =
      av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, &size);
#endif
  DisplayMatrix matrix;
  if (!data || size < sizeof matrix) return std::nullopt;
  std::memcpy(matrix.data(), data, sizeof matrix);
  return matrix;
}

// Gathers packets into groups.
class Groups {
 public:
  Groups(Codec codec, const AVCodecParameters& parameters, Turn turn, std::uint32_t least,
         const TakeGroup& take)
      : least_(least), take_(take) {
    head_.codec = codec;
    head_.turn = turn;
    head_.width = static_cast<std::uint32_t>(parameters.width);
    head_.height = static_cast<std::uint32_t>(parameters.height);
    head_.decoder_data = std::as_bytes(std::span(
        parameters.extradata, static_cast<std::size_t>(std::max(0, parameters.extradata_size))));
  }

  std::string add(const AVPacket& packet) {
    const bool is_key = (packet.flags & AV_PKT_FLAG_KEY) != 0;
    // Frames before the first key frame cannot be decoded.
    if (!is_key && run_.packets.empty() && group_.packets.empty()) return {};
    if (is_key && !run_.packets.empty()) end_run();
    const auto bytes = std::as_bytes(std::span(packet.data, static_cast<std::size_t>(packet.size)));
    const std::int64_t time = packet.pts == AV_NOPTS_VALUE ? next_time_ : packet.pts;
    next_time_ = time + 1;
    run_.add(bytes, time, is_shown(head_.codec, bytes));
    const std::uint32_t frames = group_.frames + run_.frames;
    if (group_.bytes.size() + run_.bytes.size() > kGroupMost || frames > kFramesMost ||
        std::uint64_t{head_.width} * head_.height * frames > kPixelsMost) {
      give();
      return fmt::format(
          "more than {} frames, {} MiB or {} million pixels without a key frame at which it can be "
          "cut; encode it with more of them (ffmpeg -g 64)",
          kFramesMost, kGroupMost >> 20, kPixelsMost / 1'000'000);
    }
    return {};
  }

  void end() {
    if (!run_.packets.empty()) end_run();
    give();
  }
  std::uint64_t given() const { return given_; }

 private:
  // From a key frame to before the next one.
  struct Run {
    struct Kept {
      std::size_t size;
      std::int64_t time;
    };
    std::vector<std::byte> bytes;
    std::vector<Kept> packets;
    std::uint32_t frames = 0;

    void add(std::span<const std::byte> packet, std::int64_t time, bool shown) {
      bytes.insert(bytes.end(), packet.begin(), packet.end());
      packets.push_back({packet.size(), time});
      frames += shown ? 1 : 0;
    }
    // Whether no frame in it is shown before its key frame, for which it would need the run before.
    bool is_closed() const {
      return std::all_of(packets.begin(), packets.end(),
                         [this](const Kept& one) { return one.time >= packets.front().time; });
    }
  };

  void end_run() {
    if (run_.is_closed() && group_.frames >= least_) give();
    if (group_.packets.empty() && !run_.is_closed()) drop_leading();
    group_.bytes.insert(group_.bytes.end(), run_.bytes.begin(), run_.bytes.end());
    group_.packets.insert(group_.packets.end(), run_.packets.begin(), run_.packets.end());
    group_.frames += run_.frames;
    run_ = {};
  }

  // Of the first run of a file: what is shown before its key frame refers to what is not there.
  void drop_leading() {
    Run left;
    std::span<const std::byte> rest = run_.bytes;
    for (const Run::Kept& one : run_.packets) {
      const auto bytes = rest.first(one.size);
      rest = rest.subspan(one.size);
      if (one.time >= run_.packets.front().time)
        left.add(bytes, one.time, is_shown(head_.codec, bytes));
    }
    run_ = std::move(left);
  }

  void give() {
    if (group_.frames == 0) return;
    Group group = head_;
    group.frames = group_.frames;
    std::span<const std::byte> rest = group_.bytes;
    for (const Run::Kept& one : group_.packets) {
      group.packets.push_back({rest.first(one.size), one.time});
      rest = rest.subspan(one.size);
    }
    take_(encode_group(group));
    ++given_;
    group_ = {};
  }

  Group head_;
  const std::uint32_t least_;
  const TakeGroup& take_;
  Run group_, run_;
  std::int64_t next_time_ = 0;
  std::uint64_t given_ = 0;
};

}  // namespace

std::string split_video(Bytes size, const ReadAt& read, std::uint32_t least,
                        const TakeGroup& take) {
  av_log_set_level(AV_LOG_QUIET);
  Input input{read, 0, size, std::chrono::steady_clock::now() + kWithin};
  Opened opened;
  auto* const buffer = static_cast<std::uint8_t*>(av_malloc(kBuffer));
  if (!buffer) return "no memory for it";
  opened.io = avio_alloc_context(buffer, kBuffer, 0, &input, &Input::next, nullptr, &Input::seek);
  opened.format = avformat_alloc_context();
  opened.packet = av_packet_alloc();
  if (!opened.io || !opened.format || !opened.packet) return "no memory for it";
  opened.format->pb = opened.io;
  opened.format->flags |= AVFMT_FLAG_CUSTOM_IO;
  opened.format->format_whitelist = av_strdup(kFormats);
  opened.format->io_open = &refuse_other_file;
  opened.format->interrupt_callback = {&Input::is_late, &input};
  if (avformat_open_input(&opened.format, "", nullptr, nullptr) < 0)
    return "it is no MP4, QuickTime, Matroska or WebM file that can be read";
  const int stream = av_find_best_stream(opened.format, AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
  if (stream < 0) return "it has no video";
  const AVCodecParameters& parameters = *opened.format->streams[stream]->codecpar;
  // Of some kinds only the frames themselves say how large they are.
  if (parameters.width <= 0) avformat_find_stream_info(opened.format, nullptr);
  const std::optional<Codec> codec = codec_of(parameters.codec_id);
  if (!codec)
    return fmt::format("its video is {}; H.264, HEVC, VP8, VP9, AV1, MPEG-4 and MJPEG are read",
                       avcodec_get_name(parameters.codec_id));
  if (parameters.width <= 0 || parameters.height <= 0 ||
      parameters.width > static_cast<int>(kSideMost) ||
      parameters.height > static_cast<int>(kSideMost) ||
      parameters.extradata_size > static_cast<int>(kDecoderDataMost))
    return fmt::format("it has {} x {} pixels, of which {} a side are allowed", parameters.width,
                       parameters.height, kSideMost);
  std::optional<Turn> turn = Turn{};
  if (const std::optional<DisplayMatrix> matrix = display_matrix(*opened.format->streams[stream])) {
    turn = turn_of(*matrix);
    if (!turn)
      return fmt::format(
          "its frames are to be turned by {:.1f} degrees, and turns are by 90, 180 or 270; have "
          "ffmpeg turn them (ffmpeg -i FILE NEW)",
          turned_by_degrees(*matrix).value_or(0));
  }
  for (unsigned i = 0; i < opened.format->nb_streams; ++i)
    if (static_cast<int>(i) != stream) opened.format->streams[i]->discard = AVDISCARD_ALL;
  Groups groups(*codec, parameters, *turn, least, take);
  int got = 0;
  while ((got = av_read_frame(opened.format, opened.packet)) >= 0) {
    std::string problem;
    const bool is_cut = (opened.packet->flags & AV_PKT_FLAG_CORRUPT) != 0;
    if (opened.packet->stream_index == stream && opened.packet->size > 0 && !is_cut)
      problem = groups.add(*opened.packet);
    av_packet_unref(opened.packet);
    if (!problem.empty()) return problem;
    if (is_cut) break;
  }
  groups.end();
  if (Input::is_late(&input) != 0) return "it takes too long to read";
  return groups.given() == 0 ? "it has no frame that can be decoded" : "";
}

}  // namespace batchflow::video
