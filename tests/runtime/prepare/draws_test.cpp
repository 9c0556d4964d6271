// That random steps draw as often, and as widely, as they say. Seeds are fixed; the bounds have the
// false-alarm rate of docs/order.md, 10^-6 (z 4.75).
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <map>

#include "core/base/random.h"
#include "runtime/prepare/augment.h"
#include "runtime/prepare/erase.h"
#include "runtime/prepare/geometry.h"
#include "tests/runtime/prepare/harness.h"
#include "tests/runtime/prepare/pictures.h"

namespace batchflow::test::draws_test {
namespace {

constexpr double kZ = 4.75;

void check_share(std::uint64_t hits, std::uint64_t all, double share) {
  const double mean = share * static_cast<double>(all);
  const double deviation = std::sqrt(mean * (1 - share));
  CAPTURE(share);
  CHECK(std::abs(static_cast<double>(hits) - mean) <= kZ * deviation);
}

// A picture of 3 x 2 pixels of which each has another value.
test::Encoded small_picture() {
  std::vector<std::uint8_t> pixels;
  for (std::uint8_t i = 0; i < 6; ++i) pixels.insert(pixels.end(), {i, i, i});
  return test::encode_png(pixels, 3, 2);
}

// How often each picture comes, by its red values.
std::map<std::string, std::uint64_t> outcomes(const std::string& steps, std::uint64_t visits) {
  const auto pipeline = test::compile("- {step: decode}\n" + steps);
  const auto preparer = prepare::make_preparer();
  const test::Encoded picture = small_picture();
  test::Slot slot(*pipeline);
  std::map<std::string, std::uint64_t> counts;
  for (std::uint64_t key = 0; key < visits; ++key) {
    REQUIRE(test::prepare(*preparer, *pipeline, {picture, false, hash(5, key)}, slot) ==
            prepare::Prepared::done);
    const auto bytes = slot.field(0);
    std::string red;
    for (std::size_t i = 0; i < bytes.size(); i += 3) red += fmt::format("{},", bytes[i]);
    ++counts[red];
  }
  return counts;
}

constexpr std::uint64_t kVisits = 4000;

TEST_CASE("steps are done as often as they say, and each by draws of its own") {
  const std::string crop = "- {step: centre_crop, size: [2, 3]}\n";
  auto counts = outcomes("- {step: vertical_flip, probability: 0.3}\n" + crop, kVisits);
  CHECK(counts.size() == 2);
  check_share(counts["3,4,5,0,1,2,"], kVisits, 0.3);
  counts = outcomes("- {step: vertical_flip}\n- {step: horizontal_flip}\n" + crop, kVisits);
  CHECK(counts.size() == 4);
  for (const auto& [picture, count] : counts) check_share(count, kVisits, 0.25);
  counts = outcomes("- {step: invert, probability: 0.2}\n" + crop, kVisits);
  check_share(counts["255,254,253,252,251,250,"], kVisits, 0.2);
  // All of them or none, and each still by its own draws.
  counts = outcomes(
      "- {step: random_apply, probability: 0.4, steps: [{step: vertical_flip}, "
      "{step: invert, probability: 1}]}\n" +
          crop,
      kVisits);
  CHECK(counts.size() == 3);
  check_share(counts["0,1,2,3,4,5,"], kVisits, 0.6);
  check_share(counts["252,251,250,255,254,253,"], kVisits, 0.2);
  counts = outcomes(
      "- {step: random_choice, probabilities: [1, 3], steps: [{step: vertical_flip, "
      "probability: 1}, {step: invert, probability: 1}]}\n" +
          crop,
      kVisits);
  CHECK(counts.size() == 2);
  check_share(counts["3,4,5,0,1,2,"], kVisits, 0.25);
}

TEST_CASE("a random crop is anywhere equally often") {
  const auto counts = outcomes("- {step: random_crop, size: 2, padding: [0, 1]}\n", kVisits);
  CHECK(counts.size() == 6);  // two places across, three down
  for (const auto& [picture, count] : counts) check_share(count, kVisits, 1.0 / 6);
}

TEST_CASE("augmentations and their signs are drawn equally often") {
  constexpr std::uint64_t draws = 20'000;
  std::map<std::pair<int, bool>, std::uint64_t> counts;
  std::map<double, std::uint64_t> strengths;
  for (std::uint64_t key = 0; key < draws; ++key) {
    Random rand(hash(1, key)), wide(hash(2, key));
    const auto one = prepare::draw_rand_augment(9, 31, {224, 224}, rand);
    ++counts[{static_cast<int>(one.change), one.magnitude < 0}];
    const auto other = prepare::draw_trivial_augment(31, wide);
    if (other.change == prepare::AugmentChange::solarize) ++strengths[other.magnitude];
  }
  CHECK(counts.size() == 14 + 9);
  for (const auto& [one, count] : counts) {
    const bool is_signed = one.first >= 1 && one.first <= 9;
    check_share(count, draws, is_signed ? 1.0 / 28 : 1.0 / 14);
  }
  CHECK(strengths.size() == 31);
  for (const auto& [strength, count] : strengths) check_share(count, draws, 1.0 / 14 / 31);
}

TEST_CASE("each policy of AutoAugment is drawn, and changes as often as its pairs say") {
  constexpr std::uint64_t draws = 25'000;
  for (const auto policy : {prepare::AugmentPolicy::imagenet, prepare::AugmentPolicy::cifar10,
                            prepare::AugmentPolicy::svhn}) {
    std::map<prepare::AugmentChange, std::uint64_t> counts;
    for (std::uint64_t key = 0; key < draws; ++key) {
      Random random(hash(3, key));
      for (const auto& one : prepare::draw_auto_augment(policy, {224, 224}, random).changes)
        ++counts[one.change];
    }
    // The sums of torchvision's probabilities of these changes.
    using enum prepare::AugmentChange;
    if (policy == prepare::AugmentPolicy::imagenet) check_share(counts[rotate], draws, 3.6 / 25);
    if (policy == prepare::AugmentPolicy::cifar10) check_share(counts[colour], draws, 2.9 / 25);
    if (policy == prepare::AugmentPolicy::svhn) check_share(counts[shear_x], draws, 4.2 / 25);
  }
}

TEST_CASE("what is erased has the area that was asked for, and random numbers are normal") {
  constexpr int side = 64, visits = 400;
  prepare::RandomErasing step;
  step.probability = 0.75;
  step.area = {0.1, 0.3};
  step.ratio = {0.5, 2};
  step.with = prepare::RandomErasing::With::random;
  std::uint64_t erased = 0, numbers = 0;
  double sum = 0, squares = 0, area = 0;
  for (std::uint64_t key = 0; key < visits; ++key) {
    std::vector<float> picture(3 * side * side, 1e6f);
    Random random(hash(4, key));
    prepare::erase(step, random, {side, side}, batch::ElementType::f32, true,
                   reinterpret_cast<std::byte*>(picture.data()));
    std::uint64_t here = 0;
    for (const float value : picture) {
      if (value == 1e6f) continue;
      ++here;
      sum += value;
      squares += static_cast<double>(value) * value;
    }
    erased += here > 0;
    numbers += here;
    area += static_cast<double>(here) / static_cast<double>(picture.size());
  }
  check_share(erased, visits, 0.75);
  const auto count = static_cast<double>(numbers);
  CHECK(std::abs(sum / count) <= kZ / std::sqrt(count));
  CHECK(std::abs(squares / count - 1) <= kZ * std::sqrt(2 / count));
  // A mean of 0.2, of which each has the deviation 0.2 / sqrt(12), and sides are rounded.
  CHECK(std::abs(area / static_cast<double>(erased) - 0.2) <=
        kZ * 0.06 / std::sqrt(static_cast<double>(erased)) + 0.005);
}

TEST_CASE("sines are those of the C library, but for the last bits") {
  Random random(9);
  for (int i = 0; i < 10'000; ++i) {
    const double x = (random.unit() - 0.5) * 30;
    CHECK(std::abs(prepare::sine(x) - std::sin(x)) <= 3e-16);
    CHECK(std::abs(prepare::cosine(x) - std::cos(x)) <= 3e-16);
  }
  CHECK(prepare::sine(0) == 0);
  CHECK(prepare::cosine(0) == 1);
}

TEST_CASE("a sample that is smaller than its random crop is corrupt") {
  const auto pipeline = test::compile("- {step: decode}\n- {step: random_crop, size: 8}\n");
  const auto preparer = prepare::make_preparer();
  test::Slot slot(*pipeline);
  CHECK(test::prepare(*preparer, *pipeline, {small_picture()}, slot) == prepare::Prepared::corrupt);
  CHECK(preparer->problem() == "it has 3 x 2 pixels, and random_crop takes 8 x 8 of them");
  const auto large = test::compile(
      "- {step: decode, pixels_most: 100}\n- {step: pad, padding: 9}\n- {step: centre_crop, size: "
      "8}\n");
  test::Slot other(*large);
  CHECK(test::prepare(*preparer, *large, {small_picture()}, other) == prepare::Prepared::corrupt);
  CHECK(preparer->problem() == "it would be padded to 21 x 20 pixels");
}

}  // namespace
}  // namespace batchflow::test::draws_test
