#include "runtime/audio/sound_file.h"

namespace batchflow::audio {

bool has_sound_files() {
  return false;
}

SoundFile::SoundFile() : source_(nullptr, [](Source*) {}) {}
SoundFile::~SoundFile() = default;

bool SoundFile::open(std::span<const std::byte>) {
  problem_ = "this build decodes no sound";
  return false;
}

bool SoundFile::read(std::span<float>) {
  return false;
}

void SoundFile::close() {}

}  // namespace batchflow::audio
