#include "runtime/audio/sound_file.h"

#include <fmt/format.h>
#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace batchflow::audio {
namespace {

constexpr int kChannelsMost = 64;
constexpr int kRateMost = 1 << 20;

std::uint32_t number_at(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

bool is_name_at(std::span<const std::byte> bytes, std::size_t at, std::string_view name) {
  return std::memcmp(bytes.data() + at, name.data(), name.size()) == 0;
}

// Whether a RIFF wave says that it has more data than there are: the library takes what there is.
bool is_cut_wave(std::span<const std::byte> bytes) {
  constexpr std::size_t kHead = 8;
  if (bytes.size() < 12 || !is_name_at(bytes, 0, "RIFF") || !is_name_at(bytes, 8, "WAVE"))
    return false;
  for (std::size_t at = 12; bytes.size() - at >= kHead;) {
    const std::size_t left = bytes.size() - at - kHead;
    const std::size_t size = number_at(bytes, at + 4);
    if (is_name_at(bytes, at, "data")) return size > left;
    if (size + size % 2 > left) return true;
    at += kHead + size + size % 2;
  }
  return false;
}

}  // namespace

// The encoded bytes as the library reads them, and its handle.
struct SoundFile::Source {
  std::span<const std::byte> bytes;
  sf_count_t at = 0;
  SNDFILE* file = nullptr;

  sf_count_t size() const { return static_cast<sf_count_t>(bytes.size()); }

  static sf_count_t length(void* self) { return static_cast<Source*>(self)->size(); }
  static sf_count_t tell(void* self) { return static_cast<Source*>(self)->at; }
  static sf_count_t seek(sf_count_t offset, int whence, void* self) {
    Source& source = *static_cast<Source*>(self);
    const sf_count_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? source.at : source.size();
    if (offset < -from || offset > source.size() - from) return -1;
    return source.at = from + offset;
  }
  static sf_count_t read(void* to, sf_count_t count, void* self) {
    Source& source = *static_cast<Source*>(self);
    count = std::clamp<sf_count_t>(count, 0, source.size() - source.at);
    if (count > 0)
      std::memcpy(to, source.bytes.data() + source.at, static_cast<std::size_t>(count));
    source.at += count;
    return count;
  }
  static sf_count_t write(const void*, sf_count_t, void*) { return 0; }
};

bool has_sound_files() {
  return true;
}

SoundFile::SoundFile() : source_(new Source, [](Source* source) { delete source; }) {}

SoundFile::~SoundFile() {
  close();
}

bool SoundFile::open(std::span<const std::byte> bytes) {
  close();
  problem_.clear();
  head_ = {};
  *source_ = {bytes};
  SF_VIRTUAL_IO io = {Source::length, Source::seek, Source::read, Source::write, Source::tell};
  SF_INFO info = {};
  source_->file = sf_open_virtual(&io, SFM_READ, &info, source_.get());
  if (!source_->file) {
    problem_ = "it is no sound that can be decoded";
    return false;
  }
  if (info.frames <= 0 || info.channels <= 0 || info.samplerate <= 0) {
    problem_ = "it has no frames";
  } else if (info.channels > kChannelsMost || info.samplerate > kRateMost) {
    problem_ = fmt::format("{} channels with {} frames a second, of which {} and {} are allowed",
                           info.channels, info.samplerate, kChannelsMost, kRateMost);
  } else {
    head_ = {static_cast<std::uint64_t>(info.frames), static_cast<std::uint32_t>(info.channels),
             static_cast<std::uint32_t>(info.samplerate)};
    return true;
  }
  close();
  return false;
}

bool SoundFile::read(std::span<float> out) {
  const auto frames = static_cast<sf_count_t>(head_.frames);
  if (is_cut_wave(source_->bytes) || sf_readf_float(source_->file, out.data(), frames) != frames)
    problem_ = "the data ends early";
  else if (!std::all_of(out.begin(), out.end(), [](float value) { return std::isfinite(value); }))
    problem_ = "it has values that are no numbers";
  return problem_.empty();
}

void SoundFile::close() {
  if (source_->file) sf_close(source_->file);
  source_->file = nullptr;
}

}  // namespace batchflow::audio
