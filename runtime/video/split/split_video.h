// Takes a file of video apart into groups of frames. It runs in a confined process, since formats
// of video are many, and their parsers have had faults.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/base/types.h"

namespace batchflow::video {

// Gives the bytes from `at` on, as many as there are; fewer at the end.
using ReadAt = std::function<std::size_t(std::uint64_t at, std::span<std::uint8_t> into)>;
using TakeGroup = std::function<void(std::span<const std::byte> group)>;

// A group ends once it has `least` frames: before the next key frame that no later frame is shown
// ahead of, so that each group decodes by itself. Answers what is wrong; empty: nothing.
std::string split_video(Bytes size, const ReadAt& read, std::uint32_t least, const TakeGroup& take);

}  // namespace batchflow::video
