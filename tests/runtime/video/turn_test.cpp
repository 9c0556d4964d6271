#include "runtime/video/turn.h"

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/random.h"

namespace batchflow::test::turn_test {
namespace {

using video::DisplayMatrix;
using video::Turn;
using video::turn_of;

constexpr int kOne = 1 << 16;

// Of a pixel (x, y): across is a x + c y, and down b x + d y.
DisplayMatrix matrix(int a, int b, int c, int d) {
  return {a, b, 0, c, d, 0, 0, 0, 1 << 30};
}

// The eight ways to lay a frame down.
constexpr std::array<std::array<int, 4>, 8> kWays = {{{1, 0, 0, 1},
                                                      {-1, 0, 0, 1},
                                                      {1, 0, 0, -1},
                                                      {-1, 0, 0, -1},
                                                      {0, 1, 1, 0},
                                                      {0, 1, -1, 0},
                                                      {0, -1, 1, 0},
                                                      {0, -1, -1, 0}}};

TEST_CASE("each pixel goes where the matrix shows it") {
  for (const auto& [width, height] :
       {std::pair{1, 1}, std::pair{1, 5}, std::pair{17, 6}, std::pair{40, 33}}) {
    for (const std::array<int, 4>& way : kWays) {
      const auto [a, b, c, d] = way;
      const std::optional<Turn> turn = turn_of(matrix(a * kOne, b * kOne, c * kOne, d * kOne));
      REQUIRE(turn);
      CHECK(turn->transposed == (a == 0));
      CHECK(Turn::from_number(turn->number()) == *turn);
      const int out_width = a != 0 ? width : height, out_height = a != 0 ? height : width;
      for (std::size_t bytes = 1; bytes <= 3; ++bytes) {
        std::vector<std::uint8_t> from(static_cast<std::size_t>(width * height) * bytes);
        Random random(7);
        for (std::uint8_t& value : from) value = static_cast<std::uint8_t>(random.below(256));
        const auto row = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(width) * bytes);
        const auto out_row =
            static_cast<std::ptrdiff_t>(static_cast<std::size_t>(out_width) * bytes);
        std::vector<std::uint8_t> to(from.size()), wanted(from.size());
        const auto side = [](int pixels) { return static_cast<std::uint32_t>(pixels); };
        video::turn_plane({from.data(), row, side(width), side(height)}, bytes, *turn, to.data(),
                          out_row);
        for (int y = 0; y < height; ++y) {
          for (int x = 0; x < width; ++x) {
            const int across = a * x + c * y + (a + c < 0 ? out_width - 1 : 0);
            const int down = b * x + d * y + (b + d < 0 ? out_height - 1 : 0);
            for (std::size_t i = 0; i < bytes; ++i)
              wanted[static_cast<std::size_t>(down * out_width + across) * bytes + i] =
                  from[static_cast<std::size_t>(y * width + x) * bytes + i];
          }
        }
        CHECK(to == wanted);
        // Rows from the last to the first.
        std::vector<std::uint8_t> other(from.size());
        Turn upside = *turn;
        bool& last_first = upside.transposed ? upside.mirrored : upside.flipped;
        last_first = !last_first;
        video::turn_plane({from.data() + (height - 1) * row, -row, side(width), side(height)},
                          bytes, upside, other.data(), out_row);
        CHECK(other == wanted);
      }
    }
  }
}

TEST_CASE("stretched and inexact matrices turn, and others do not") {
  const Turn clockwise{true, true, false};
  CHECK(turn_of(matrix(0, kOne, -kOne, 0)) == clockwise);
  CHECK(turn_of(matrix(0, 3 * kOne, -kOne / 2, 0)) == clockwise);
  CHECK(turn_of(matrix(300, kOne, -kOne, 300)) == clockwise);  // by 0.26 degrees less
  CHECK(turn_of(matrix(1, -7, 7, 1)) == std::nullopt);         // by 8 degrees less
  CHECK(turn_of(matrix(kOne, kOne, -kOne, kOne)) == std::nullopt);
  CHECK(*video::turned_by_degrees(matrix(kOne, kOne, -kOne, kOne)) == doctest::Approx(45));
  CHECK(*video::turned_by_degrees(matrix(0, -kOne, kOne, 0)) == doctest::Approx(-90));
  for (const DisplayMatrix& line : {matrix(0, 0, 0, 0), matrix(-kOne, 0, kOne, 0),
                                    matrix(0, kOne, 0, -kOne), DisplayMatrix{}}) {
    CHECK(video::turned_by_degrees(line) == std::nullopt);
    CHECK(turn_of(line) == Turn{});
  }
}

TEST_CASE("any matrix gives a turn or none") {
  constexpr int kLeast = std::numeric_limits<int>::min(), kMost = std::numeric_limits<int>::max();
  CHECK(turn_of(matrix(kLeast, 0, 0, kLeast)) == Turn{false, true, true});
  CHECK(turn_of(matrix(0, kMost, kLeast, 0)) == Turn{true, true, false});
  Random random(3);
  for (int i = 0; i < 10'000; ++i) {
    DisplayMatrix any;
    for (std::int32_t& value : any) value = static_cast<std::int32_t>(random.below(1ULL << 32));
    const std::optional<Turn> turn = turn_of(any);
    if (turn) CHECK(turn->number() < Turn::kKinds);
  }
}

}  // namespace
}  // namespace batchflow::test::turn_test
