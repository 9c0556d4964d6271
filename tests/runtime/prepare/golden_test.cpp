#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "tests/runtime/prepare/golden.h"
#include "tests/runtime/prepare/harness.h"
#include "tests/skip.h"

namespace batchflow::test::golden_test {
namespace {

// What Pillow, torchvision and torch made of the same pictures, with the same draws: see
// make_golden.py. Where rounding is ours to choose we have chosen theirs, so all bytes are equal.
// A blur adds in another order, so a few of its bytes differ by 1; all others are equal.
TEST_CASE("pictures are prepared as Pillow and torchvision prepare them") {
  const auto folder = golden_folder();
  const std::vector<GoldenCase> cases = golden_cases();
  CHECK(cases.size() >= 430);
  for (const auto& preparer : test::all_preparers()) {
    for (const GoldenCase& one : cases) {
      INFO(one.name);
      const auto pipeline = test::compile(one.pipeline, test::files_dataset());
      const auto picture = read_file(folder / one.picture);
      if (!is_decoded_here(picture)) continue;
      const auto expected = read_file(folder / (one.name + ".bin"));
      test::Slot slot(*pipeline);
      REQUIRE(test::prepare(*preparer, *pipeline, {.bytes = picture, .draw_key = one.draw_key},
                            slot) == prepare::Prepared::done);
      const auto got = slot.field(0);
      REQUIRE(got.size() == expected.size());
      std::uint64_t differ = 0;
      int most = 0;
      for (std::size_t i = 0; i < got.size(); ++i) {
        const int difference = std::abs(static_cast<int>(got[i]) - static_cast<int>(expected[i]));
        differ += difference != 0;
        most = std::max(most, difference);
      }
      CHECK_MESSAGE((differ == 0 || (differ <= one.differ_at_most && most == 1)),
                    fmt::format("{} of {} bytes differ, by up to {}", differ, got.size(), most));
    }
  }
}

TEST_CASE("all kinds of pictures are decoded in this build, and so tested") {
  for (const prepare::PictureKind& kind : prepare::picture_kinds())
    if (!kind.make) return skipped(fmt::format("{} is not installed", kind.package));
}

}  // namespace
}  // namespace batchflow::test::golden_test
