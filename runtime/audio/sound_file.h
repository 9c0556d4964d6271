// Encoded sound into waves: WAV, FLAC, Ogg Vorbis and Opus, and what else libsndfile reads.
//
// Values are from -1 to 1, but where the file has larger ones. A sound is also corrupt when it has
// fewer frames than its header says, or values that are no numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/base/types.h"

namespace batchflow::audio {

// Whether this build decodes sound.
bool has_sound_files();
// The package that it needs for that.
inline constexpr std::string_view kSoundPackage = "libsndfile1-dev";

struct SoundHead {
  std::uint64_t frames = 0;  // values of each channel
  std::uint32_t channels = 0;
  std::uint32_t rate = 0;  // frames a second
};

// For one thread.
class SoundFile {
 public:
  SoundFile();
  ~SoundFile();

  // Reads the header. `bytes` must stay until close(). False: see problem().
  bool open(std::span<const std::byte> bytes);
  const SoundHead& head() const { return head_; }
  // What the library takes beside the frames, at most.
  static constexpr Bytes kNeeds = Bytes{1} << 20;
  // All frames, their channels side by side. REQUIRES: it is open, and `out` has room for them
  bool read(std::span<float> out);
  void close();
  const std::string& problem() const { return problem_; }

 private:
  struct Source;
  std::unique_ptr<Source, void (*)(Source*)> source_;
  SoundHead head_;
  std::string problem_;
};

}  // namespace batchflow::audio
