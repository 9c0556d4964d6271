#include "runtime/prepare/clip_worker.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/random.h"
#include "core/order/keys.h"

namespace batchflow::prepare {
namespace {

// In front of the frames in the decoded form: `BFVF`, width, height, frames, each of 32 bits.
using KeptHead = std::array<std::uint32_t, 4>;
constexpr std::uint32_t kKeptMagic = 0x46564642;

struct Frames {
  Extent2 extent;
  std::uint32_t count = 0;

  Bytes each() const {
    return memory::counted_product(memory::counted_product(static_cast<Bytes>(extent.width),
                                                           static_cast<Bytes>(extent.height)),
                                   kChannels);
  }
  PictureView view(const std::uint8_t* pixels, std::uint32_t frame) const {
    return {pixels + frame * each(), static_cast<std::size_t>(extent.width) * kChannels, extent};
  }
};

bool read_kept(std::span<const std::byte> bytes, Frames& frames) {
  KeptHead head;
  if (bytes.size() < sizeof head) return false;
  std::memcpy(head.data(), bytes.data(), sizeof head);
  const auto [magic, width, height, count] = head;
  if (magic != kKeptMagic || width == 0 || width > video::kSideMost || height == 0 ||
      height > video::kSideMost || count == 0 || count > video::kFramesMost)
    return false;
  frames = {{static_cast<int>(width), static_cast<int>(height)}, count};
  return bytes.size() == sizeof head + count * frames.each();
}

}  // namespace

std::vector<std::uint32_t> clip_frames(const Clip& clip, std::uint32_t frames, std::uint64_t seed) {
  const std::uint64_t span = std::uint64_t{clip.frames - 1} * clip.every + 1;
  std::uint64_t first = 0;
  if (frames > span) {
    const std::uint64_t more = frames - span;
    first = clip.anywhere ? Random(seed).below(more + 1) : more / 2;
  }
  std::vector<std::uint32_t> chosen;
  for (std::uint64_t i = 0; i < clip.frames; ++i)
    chosen.push_back(
        static_cast<std::uint32_t>(std::min<std::uint64_t>(first + i * clip.every, frames - 1)));
  return chosen;
}

bool ClipWorker::run(const CompiledPipeline& pipeline, const Input& input, PictureWorker& pictures,
                     std::byte* out) {
  const ClipPlan& plan = *pipeline.clip();
  Frames frames;
  if (input.decoded) {
    if (!read_kept(input.bytes, frames)) return fail("the decoded form is damaged");
  } else {
    if (!decoder_.open(input.bytes)) return fail(decoder_.problem());
    const video::Group& group = decoder_.group();
    frames = {{static_cast<int>(group.shown_width()), static_cast<int>(group.shown_height())},
              group.frames};
  }
  const std::vector<std::uint32_t> chosen =
      clip_frames(plan.clip, frames.count, order::step_seed(input.draw_key, plan.draw));
  std::vector<std::uint32_t> each = chosen;  // once
  each.erase(std::unique(each.begin(), each.end()), each.end());
  std::byte* const stays =
      input.keep ? (*input.keep)(sizeof(KeptHead) + frames.count * frames.each()) : nullptr;
  PictureWorker::Input picture;
  picture.draw_key = input.draw_key;
  picture.is_given_up = input.is_given_up;
  picture.beside = input.beside;
  if (!input.decoded) {
    picture.beside = memory::counted_sum(picture.beside, decoder_.needs());
    if (!stays)
      picture.beside =
          memory::counted_sum(picture.beside, memory::counted_product(each.size(), frames.each()));
  }
  if (!pictures.begin_frames(*pipeline.picture(), frames.extent, picture))
    return fail(pictures.problem());
  const std::uint8_t* pixels = nullptr;
  if (input.decoded) {
    pixels = reinterpret_cast<const std::uint8_t*>(input.bytes.data() + sizeof(KeptHead));
  } else {
    std::byte* const to =
        stays ? stays + sizeof(KeptHead) : frames_.have(each.size() * frames.each());
    if (!decode(input, each, reinterpret_cast<std::uint8_t*>(to), stays != nullptr)) return false;
    pixels = reinterpret_cast<const std::uint8_t*>(to);
  }
  if (stays) {
    const KeptHead head = {kKeptMagic, static_cast<std::uint32_t>(frames.extent.width),
                           static_cast<std::uint32_t>(frames.extent.height), frames.count};
    std::memcpy(stays, head.data(), sizeof head);
  }
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const bool are_all = input.decoded || stays;
    const auto at = static_cast<std::uint32_t>(
        are_all ? chosen[i] : std::lower_bound(each.begin(), each.end(), chosen[i]) - each.begin());
    if (!pictures.run_frame(*pipeline.picture(), frames.view(pixels, at), input.draw_key,
                            out + i * plan.bytes))
      return fail(pictures.problem());
  }
  return true;
}

// Decodes all frames of the group, or those that are wanted, to `to`, one behind the other.
bool ClipWorker::decode(const Input& input, const std::vector<std::uint32_t>& wanted,
                        std::uint8_t* to, bool all) {
  const video::Group& group = decoder_.group();
  std::size_t next = 0;
  const auto place = [&](std::uint32_t frame) -> std::uint8_t* {
    if (all) return to + frame * group.frame_bytes();
    if (next == wanted.size() || frame != wanted[next]) return nullptr;
    return to + next++ * group.frame_bytes();
  };
  const auto stop = [&input] { return input.is_given_up && *input.is_given_up; };
  if (decoder_.decode(all ? group.frames - 1 : wanted.back(), place, stop)) return true;
  return fail(decoder_.problem().empty() ? kGivenUp : std::string_view(decoder_.problem()));
}

bool ClipWorker::fail(std::string_view problem) {
  problem_ = problem;
  return false;
}

}  // namespace batchflow::prepare
