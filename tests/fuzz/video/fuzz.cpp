// Groups of frames of video: what is stored of them, and the decoders that they are given to.
#include <vector>

#include "core/base/check.h"
#include "runtime/video/group_decoder.h"

namespace batchflow::test {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static video::GroupDecoder decoder;
  const auto bytes = std::as_bytes(std::span(data, size));
  video::Group group;
  if (!video::read_group(bytes, group).empty()) return 0;
  // A large picture costs time, and shows nothing more.
  if (group.frame_bytes() > 1 << 16 || group.frames > 32) return 0;
  if (!decoder.open(bytes)) return 0;
  std::vector<std::uint8_t> frame(group.frame_bytes());
  std::uint32_t seen = 0;
  const auto place = [&](std::uint32_t number) {
    BF_CHECK(number == seen++);
    return frame.data();
  };
  const bool done = decoder.decode(group.frames - 1, place, {});
  BF_CHECK(done == decoder.problem().empty());
  BF_CHECK(!done || seen == group.frames);
  decoder.end();
  return 0;
}

}  // namespace batchflow::test
