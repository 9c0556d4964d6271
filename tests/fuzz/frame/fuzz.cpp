// Frames one after another: they are the same, in whatever pieces their bytes arrive.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "runtime/protocol/frame.h"

namespace batchflow::test {

namespace {

struct Cut {
  std::vector<std::string> frames;
  bool broken = false;
  bool in_a_frame = false;
  friend bool operator==(const Cut&, const Cut&) = default;
};

Cut cut(const std::uint8_t* data, std::size_t size, std::size_t at_once) {
  protocol::FrameCutter cutter;
  Cut result;
  while (size != 0 && !cutter.broken()) {
    const auto room = cutter.room();
    BF_CHECK(!room.empty());
    const std::size_t now = std::min({room.size(), size, at_once});
    std::memcpy(room.data(), data, now);
    cutter.filled(now);
    data += now;
    size -= now;
    if (auto frame = cutter.take()) result.frames.push_back(std::move(*frame));
  }
  result.broken = cutter.broken();
  result.in_a_frame = cutter.in_a_frame();
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  BF_CHECK(cut(data, size, 1) == cut(data, size, size));
  return 0;
}

}  // namespace batchflow::test
