// Scaling by each kind of kernels, beside a loop that does the same pixel by pixel.
#include "runtime/prepare/resample.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "core/base/random.h"
#include "tests/policies/random_seeds.h"

namespace batchflow::test::resample_test {
namespace {

using Pixels = std::vector<std::uint8_t>;
using prepare::Box;
using prepare::Extent2;
using prepare::Filter;
using prepare::kChannels;
using prepare::Scaling;

std::size_t at(int x, int y, int width) {
  return (static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
          static_cast<std::size_t>(x)) *
         kChannels;
}

double weight_at(double distance, Filter filter) {
  const double x = std::abs(distance);
  if (filter == Filter::bilinear) return std::max(0.0, 1.0 - x);
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * -0.5 : 0.0;
}

// Pillow's coefficients of one pixel, and the sum of them times what `source` gives.
template <class Source>
std::uint8_t one_value(int from, int to, Filter filter, int pixel, const Source& source) {
  if (from == to) return source(pixel);
  const double scale = static_cast<double>(from) / to, width = std::max(scale, 1.0);
  if (filter == Filter::nearest) {
    double at = scale * 0.5;
    for (int i = 0; i < pixel; ++i) at += scale;
    return source(std::min(static_cast<int>(at), from - 1));
  }
  const double centre = (pixel + 0.5) * scale,
               reach = filter == Filter::bicubic ? 2 * width : width;
  const int first = std::max(0, static_cast<int>(centre - reach + 0.5));
  const int end = std::min(from, static_cast<int>(centre + reach + 0.5));
  std::vector<double> weights;
  double sum = 0;
  for (int i = first; i < end; ++i) {
    weights.push_back(weight_at((i - centre + 0.5) * (1.0 / width), filter));
    sum += weights.back();
  }
  std::int64_t value = 1 << 21;
  for (int i = first; i < end; ++i) {
    const double fixed = weights[static_cast<std::size_t>(i - first)] / sum * (1 << 22);
    value += source(i) * static_cast<std::int64_t>(fixed < 0 ? fixed - 0.5 : fixed + 0.5);
  }
  return static_cast<std::uint8_t>(std::clamp<std::int64_t>(value >> 22, 0, 255));
}

// `source` shows all of the picture.
Pixels pixel_by_pixel(const Scaling& s, const Pixels& source, int source_width) {
  Pixels across(at(0, s.from.height, s.window.width));
  for (int y = 0; y < s.from.height; ++y)
    for (int x = 0; x < s.window.width; ++x)
      for (int c = 0; c < kChannels; ++c)
        across[at(x, y, s.window.width) + static_cast<std::size_t>(c)] =
            one_value(s.from.width, s.to.width, s.filter,
                      s.window.x + (s.flip ? s.window.width - 1 - x : x), [&](int i) {
                        return source[at(s.from.x + i, s.from.y + y, source_width) +
                                      static_cast<std::size_t>(c)];
                      });
  Pixels out(at(0, s.window.height, s.window.width));
  for (int y = 0; y < s.window.height; ++y)
    for (int x = 0; x < s.window.width; ++x)
      for (int c = 0; c < kChannels; ++c)
        out[at(x, y, s.window.width) + static_cast<std::size_t>(c)] = one_value(
            s.from.height, s.to.height, s.filter,
            s.window.y + (s.upside_down ? s.window.height - 1 - y : y),
            [&](int i) { return across[at(x, i, s.window.width) + static_cast<std::size_t>(c)]; });
  return out;
}

int between(Random& random, int least, int most) {
  return least + static_cast<int>(random.below(static_cast<std::uint64_t>(most - least + 1)));
}

// Sides are short now and then, and scales from a tenth to ten.
Scaling random_scaling(Random& random, Extent2 picture) {
  Scaling s;
  s.from.width = between(random, 1, picture.width);
  s.from.height = between(random, 1, picture.height);
  s.from.x = between(random, 0, picture.width - s.from.width);
  s.from.y = between(random, 0, picture.height - s.from.height);
  const auto scaled = [&](int side) {
    const int other = between(random, 1, 10);
    return random.below(8) == 0
               ? side
               : between(random, (side + other - 1) / other, std::min(side * other, side + 60));
  };
  s.to = {scaled(s.from.width), scaled(s.from.height)};
  s.window.width = between(random, 1, s.to.width);
  s.window.height = between(random, 1, s.to.height);
  s.window.x = between(random, 0, s.to.width - s.window.width);
  s.window.y = between(random, 0, s.to.height - s.window.height);
  s.flip = random.below(2) == 0;
  s.upside_down = random.below(2) == 0;
  s.filter = static_cast<Filter>(random.below(3));
  return s;
}

TEST_CASE("each kind of kernels scales as a loop over pixels does") {
  const std::vector<const prepare::Kernels*> kinds = prepare::all_kernels();
  const prepare::Finish planes(batch::ElementType::u8, {}, true);
  Random random(11);
  const std::uint64_t all = sanitized_share(1500);
  for (std::uint64_t i = 0; i < all; ++i) {
    const Extent2 picture{between(random, 1, random.below(4) == 0 ? 12 : 150),
                          between(random, 1, 60)};
    const Scaling s = random_scaling(random, picture);
    // What is read has just its memory, so that a sanitizer finds what is read beyond it.
    Pixels source(at(0, picture.height, picture.width));
    for (std::uint8_t& byte : source) byte = static_cast<std::uint8_t>(random.below(256));
    const Pixels wanted = pixel_by_pixel(s, source, picture.width);
    const Box read = prepare::needed(s);
    Pixels part;
    for (int y = 0; y < read.height; ++y)
      part.insert(part.end(), &source[at(read.x, read.y + y, picture.width)],
                  &source[at(read.x, read.y + y, picture.width)] +
                      static_cast<std::size_t>(read.width) * kChannels);
    const prepare::PictureView view{part.data(), static_cast<std::size_t>(read.width) * kChannels,
                                    read.extent()};
    for (const prepare::Kernels* kind : kinds) {
      CAPTURE(i);
      CAPTURE(kind->name);
      prepare::Resampler resampler(*kind);
      prepare::PictureBuffer out;
      resampler.run(s, view, read, out);
      CHECK(std::equal(wanted.begin(), wanted.end(), out.pixels()));
      Pixels split(wanted.size());
      resampler.run(s, view, read, planes, reinterpret_cast<std::byte*>(split.data()));
      bool same = true;
      const std::size_t plane = wanted.size() / kChannels;
      for (std::size_t at = 0; at < wanted.size(); ++at)
        same = same && split[at % kChannels * plane + at / kChannels] == wanted[at];
      CHECK(same);
      prepare::Resampler::Needs needs;
      needs.add(s);
      constexpr Bytes pages = 2 * 4096;  // two buffers have whole pages
      CHECK(resampler.held() <= needs.sum() + pages);
    }
  }
}

// Wide kernels multiply where plain ones look a value up.
TEST_CASE("each kind of kernels normalises to the same numbers") {
  const prepare::Kernels* const wide = prepare::wide_kernels();
  if (!wide) return;  // as above
  Random random(5);
  const auto one = [&](const prepare::Normalisation& normalisation, int width) {
    const prepare::Finish finish(batch::ElementType::f32, normalisation, true);
    Pixels pixels(at(0, 2, width));
    for (std::uint8_t& byte : pixels) byte = static_cast<std::uint8_t>(random.below(256));
    std::vector<std::byte> by_plain(pixels.size() * sizeof(float)), by_wide(by_plain.size());
    const prepare::PictureView view{pixels.data(), at(0, 1, width), {width, 2}};
    finish.write(view, prepare::plain_kernels(), by_plain.data());
    finish.write(view, *wide, by_wide.data());
    CHECK(by_wide == by_plain);
  };
  one({{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}}, 2000);
  for (int i = 0; i < 200; ++i) {
    prepare::Normalisation any;
    for (float& mean : any.mean) mean = static_cast<float>(random.unit());
    for (float& deviation : any.deviation)
      deviation = static_cast<float>(random.unit()) * (i % 10 == 0 ? 1e-38f : 1) + 1e-38f;
    one(any, between(random, 1, 300));
  }
}

}  // namespace
}  // namespace batchflow::test::resample_test
