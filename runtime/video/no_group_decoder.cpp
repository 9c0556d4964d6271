#include "runtime/video/group_decoder.h"

namespace batchflow::video {

bool has_video() {
  return false;
}

std::string video_build() {
  return "without video";
}

GroupDecoder::GroupDecoder() : library_(nullptr, [](Library*) {}) {}
GroupDecoder::~GroupDecoder() = default;

bool GroupDecoder::open(std::span<const std::byte>) {
  return fail("this build decodes no video");
}

Bytes GroupDecoder::needs() const {
  return 0;
}

bool GroupDecoder::decode(std::uint32_t, const Place&, const std::function<bool()>&) {
  return false;
}

void GroupDecoder::end() {}

bool GroupDecoder::fail(std::string_view problem) {
  problem_ = problem;
  return false;
}

}  // namespace batchflow::video
