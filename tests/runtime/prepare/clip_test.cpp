#include "runtime/prepare/clip_worker.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "core/base/random.h"
#include "runtime/video/group.h"
#include "tests/runtime/prepare/harness.h"
#include "tests/runtime/prepare/pictures.h"
#include "tests/skip.h"

namespace batchflow::test::clip_test {
namespace {

constexpr int kWidth = 32, kHeight = 16;

using prepare::Clip;
using prepare::clip_frames;

std::vector<std::uint32_t> chosen(std::uint32_t frames, std::uint32_t every, std::uint32_t of) {
  return clip_frames(Clip{frames, every, false}, of, 0);
}

TEST_CASE("a clip has frames of its group, from the middle or from anywhere") {
  using Frames = std::vector<std::uint32_t>;
  CHECK(chosen(3, 1, 9) == Frames{3, 4, 5});
  CHECK(chosen(3, 4, 9) == Frames{0, 4, 8});
  CHECK(chosen(3, 2, 8) == Frames{1, 3, 5});
  CHECK(chosen(4, 3, 5) == Frames{0, 3, 4, 4});  // too short
  CHECK(chosen(1, 9, 1) == Frames{0});
  std::vector<int> begins(10);
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Frames made = clip_frames(Clip{4, 3, true}, 19, seed);
    REQUIRE(made.size() == 4);
    for (std::size_t i = 1; i < 4; ++i) CHECK(made[i] == made[0] + 3 * i);
    REQUIRE(made[0] < 10);
    ++begins[made[0]];
  }
  for (const int count : begins) CHECK(count > 50);  // 100 expected
}

// Each frame is a JPEG of its own.
std::vector<Encoded> pictures(int count) {
  std::vector<Encoded> all;
  for (int i = 0; i < count; ++i)
    all.push_back(encode_jpeg(kWidth, kHeight, {}, static_cast<std::uint64_t>(i)));
  return all;
}

std::vector<std::byte> group_of(const std::vector<Encoded>& frames, video::Turn turn = {}) {
  video::Group group;
  group.turn = turn;
  group.codec = video::Codec::mjpeg;
  group.width = kWidth;
  group.height = kHeight;
  group.frames = static_cast<std::uint32_t>(frames.size());
  for (const Encoded& frame : frames)
    group.packets.push_back({frame, static_cast<std::int64_t>(group.packets.size())});
  return video::encode_group(group);
}

FakeDataset groups() {
  return {sources::RecordKind::value,
          {{{"video", batch::ElementType::u8, {1 << 20}, true}}},
          {100'000},
          false};
}

TEST_CASE("a group is read as it was written, and damage is noticed") {
  const std::vector<std::byte> bytes = group_of(pictures(3));
  video::Group group;
  REQUIRE(video::read_group(bytes, group) == "");
  CHECK(group.frames == 3);
  CHECK(group.packets.size() == 3);
  CHECK(video::encode_group(group) == bytes);
  for (std::size_t end = 0; end < bytes.size(); end += 7)
    CHECK(video::read_group(std::span(bytes).first(end), group) != "");
  group.width = group.height = 8192;
  group.frames = 64;  // as many pixels as there may be
  while (group.packets.size() < 65) group.packets.push_back(group.packets.front());
  video::Group again;
  const std::vector<std::byte> most = video::encode_group(group);
  CHECK(video::read_group(most, again) == "");
  group.frames = 65;
  const std::vector<std::byte> more = video::encode_group(group);
  CHECK(video::read_group(more, again) == "its head is damaged");
  const std::vector<std::byte> turned = group_of(pictures(3), {true, false, true});
  REQUIRE(video::read_group(turned, again) == "");
  CHECK(again.turn == video::Turn{true, false, true});
  CHECK(again.shown_width() == kHeight);
  CHECK(again.shown_height() == kWidth);
  std::vector<std::byte> other_turn = turned;
  other_turn[20] = std::byte{video::Turn::kKinds};
  CHECK(video::read_group(other_turn, again) == "its head is damaged");
  std::vector<std::byte> longer = bytes;
  longer.push_back({});
  CHECK(video::read_group(longer, group) == "something stands behind its end");
  Random random(7);
  for (int i = 0; i < 2000; ++i) {  // sanitizers would say what is read beyond the end
    std::vector<std::byte> other = bytes;
    other[random.below(100)] = static_cast<std::byte>(random.below(256));
    video::read_group(other, group);
  }
}

TEST_CASE("frames of a clip are the same from the group and from its decoded form") {
  if (!video::has_video()) return skipped("this build decodes no video");
  const std::vector<std::byte> bytes = group_of(pictures(12));
  const FakeDataset dataset = groups();
  const auto pipeline = compile(
      "  - {step: random_clip, frames: 4, every: 2}\n"
      "  - {step: random_resized_crop, size: [8, 12]}\n"
      "  - {step: horizontal_flip}\n",
      dataset);
  const auto preparer = prepare::make_preparer(prepare::plain_kernels());
  REQUIRE(pipeline->spec().fields[0].name == "video");
  CHECK(pipeline->spec().fields[0].shape == std::vector<std::uint64_t>{4, 8, 12, 3});
  CHECK(pipeline->info().prefix_hash != 0);
  std::vector<std::byte> last;
  for (std::uint64_t key = 1; key <= 20; ++key) {
    Slot plain(*pipeline), keeping(*pipeline), kept(*pipeline);
    std::vector<std::byte> form;
    REQUIRE(prepare(*preparer, *pipeline, {.bytes = bytes, .draw_key = key}, plain) ==
            prepare::Prepared::done);
    REQUIRE(prepare(*preparer, *pipeline, {.bytes = bytes, .draw_key = key}, keeping, &form) ==
            prepare::Prepared::done);
    CHECK(form.size() == 16 + 12 * kWidth * kHeight * 3);
    REQUIRE(prepare(*preparer, *pipeline, {.bytes = form, .decoded = true, .draw_key = key},
                    kept) == prepare::Prepared::done);
    CHECK(plain.field(0) == keeping.field(0));
    CHECK(plain.field(0) == kept.field(0));
    CHECK(plain.field(0) != last);
    last = plain.field(0);
    form.pop_back();
    CHECK(prepare(*preparer, *pipeline, {.bytes = form, .decoded = true, .draw_key = key}, kept) ==
          prepare::Prepared::corrupt);
  }
}

TEST_CASE("frames are turned as their group says, by planes or after they are RGB") {
  if (!video::has_video()) return skipped("this build decodes no video");
  const FakeDataset dataset = groups();
  const auto preparer = prepare::make_preparer(prepare::plain_kernels());
  const auto made = [&](const Encoded& frame, video::Turn turn) {
    const auto pipeline =
        compile(fmt::format("  - {{step: clip, frames: 1}}\n"
                            "  - {{step: centre_crop, size: [{}, {}]}}\n",
                            turn.transposed ? kWidth : kHeight, turn.transposed ? kHeight : kWidth),
                dataset);
    Slot plain(*pipeline), keeping(*pipeline), kept(*pipeline);
    std::vector<std::byte> form;
    const std::vector<std::byte> bytes = group_of({frame}, turn);
    REQUIRE(prepare(*preparer, *pipeline, {.bytes = bytes}, plain) == prepare::Prepared::done);
    REQUIRE(prepare(*preparer, *pipeline, {.bytes = bytes}, keeping, &form) ==
            prepare::Prepared::done);
    REQUIRE(prepare(*preparer, *pipeline, {.bytes = form, .decoded = true}, kept) ==
            prepare::Prepared::done);
    CHECK(plain.field(0) == keeping.field(0));
    CHECK(plain.field(0) == kept.field(0));
    return plain.field(0);
  };
  // Colours at each pixel; at every second of a row, so that quarter turns are made of RGB; none.
  for (const JpegWay& way : {JpegWay{}, JpegWay{.h = 2}, JpegWay{.from = JCS_GRAYSCALE}}) {
    const Encoded frame = encode_jpeg(kWidth, kHeight, way);
    const std::vector<std::byte> upright = made(frame, {});
    for (std::uint32_t number = 1; number < video::Turn::kKinds; ++number) {
      const video::Turn turn = video::Turn::from_number(number);
      std::vector<std::byte> wanted(upright.size());
      video::turn_plane(
          {reinterpret_cast<const std::uint8_t*>(upright.data()), kWidth * 3, kWidth, kHeight}, 3,
          turn, reinterpret_cast<std::uint8_t*>(wanted.data()),
          (turn.transposed ? kHeight : kWidth) * 3);
      CHECK(made(frame, turn) == wanted);
    }
  }
}

TEST_CASE("clips of any length share what is kept of a group") {
  if (!video::has_video()) return skipped("this build decodes no video");
  const FakeDataset dataset = groups();
  const auto one =
      compile("  - {step: random_clip, frames: 4}\n  - {step: resize, size: [8, 8]}\n", dataset);
  const auto other = compile(
      "  - {step: clip, frames: 9, every: 2}\n  - {step: centre_crop, size: [8, 8]}\n", dataset);
  CHECK(one->info().prefix_hash == other->info().prefix_hash);
  CHECK(one->info().hash != other->info().hash);
  CHECK(one->info().has_random);
  CHECK(!other->info().has_random);
}

TEST_CASE("a frame that is damaged makes its group corrupt where the clip needs it") {
  if (!video::has_video()) return skipped("this build decodes no video");
  std::vector<Encoded> frames = pictures(9);
  frames[8].resize(frames[8].size() / 2);
  frames[8][0] = std::byte{0};
  const std::vector<std::byte> bytes = group_of(frames);
  const FakeDataset dataset = groups();
  const auto preparer = prepare::make_preparer(prepare::plain_kernels());
  for (const auto& [count, result] :
       {std::pair{3, prepare::Prepared::done}, std::pair{9, prepare::Prepared::corrupt}}) {
    const auto pipeline = compile(
        fmt::format("  - {{step: clip, frames: {}}}\n  - {{step: centre_crop, size: 8}}\n", count),
        dataset);
    Slot slot(*pipeline);
    CHECK(prepare(*preparer, *pipeline, {.bytes = bytes}, slot) == result);
  }
  CHECK(std::string(preparer->problem()).find("damaged") != std::string::npos);
}

TEST_CASE("a clip is refused where there are no groups") {
  if (!video::has_video()) return skipped("this build decodes no video");
  CHECK_THROWS_WITH_AS(compile("  - {step: clip, frames: 4}\n"),
                       doctest::Contains("has no groups of frames"), ConfigError);
  CHECK_THROWS_WITH_AS(compile("  - {step: clip, frames: 4}\n", groups()),
                       doctest::Contains("different sizes"), ConfigError);
  CHECK_THROWS_WITH_AS(compile("  - {step: decode}\n  - {step: clip, frames: 4}\n"),
                       doctest::Contains("stands twice"), ConfigError);
}

}  // namespace
}  // namespace batchflow::test::clip_test
