#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/order/keys.h"
#include "tests/runtime/prepare/harness.h"
#include "tests/runtime/prepare/pictures.h"

// Sanitizers bring an allocator of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define BATCHFLOW_COUNTS_NEW 1
namespace {
std::atomic<std::uint64_t> allocations{0};
}
// Not inlined, or GCC takes malloc and delete for a pair that does not match.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif

namespace batchflow::test::prepare_test {
namespace {

using test::compile;
using test::encode_jpeg;
using test::encode_png;
using test::Encoded;
using test::Slot;

const std::vector<std::string> kPipelines = {
    "- {step: decode}\n- {step: random_resized_crop, size: 48}\n- {step: horizontal_flip}\n",
    "- {step: decode}\n- {step: random_resized_crop, size: [20, 31]}\n- {step: horizontal_flip}\n"
    "- {step: layout, order: nchw}\n",
    "- {step: decode}\n- {step: resize, size: 40}\n- {step: centre_crop, size: 32}\n",
    "- {step: decode}\n- {step: resize, size: [40, 50]}\n- {step: horizontal_flip, probability: "
    "1}\n"
    "- {step: centre_crop, size: 32}\n- {step: cast, to: f32}\n",
    "- {step: decode}\n- {step: centre_crop, size: 30}\n- {step: colour_jitter, hue: 0.2, "
    "contrast: 1}\n",
    "- {step: decode}\n- {step: colour_jitter, brightness: 0.5, saturation: 0.5}\n"
    "- {step: centre_crop, size: [400, 20]}\n- {step: resize, size: 16}\n"
    "- {step: centre_crop, size: 16}\n",
    "- {step: decode}\n- {step: horizontal_flip}\n- {step: horizontal_flip}\n"
    "- {step: random_resized_crop, size: 24, scale: [1, 1], ratio: [0.2, 0.2]}\n",
    "- {step: decode}\n- {step: random_resized_crop, size: 40, interpolation: bicubic}\n"
    "- {step: vertical_flip}\n- {step: centre_crop, size: 30}\n",
    "- {step: decode}\n- {step: resize, size: 45, interpolation: nearest}\n"
    "- {step: vertical_flip}\n- {step: horizontal_flip}\n- {step: centre_crop, size: 40}\n",
    "- {step: decode}\n- {step: pad, padding: 3, padding_mode: reflect}\n"
    "- {step: random_crop, size: 40, padding: 2, pad_if_needed: true}\n- {step: greyscale}\n",
    "- {step: decode}\n- {step: greyscale}\n- {step: random_affine, degrees: 20, scale: [0.5, 2], "
    "shear: 10, translate: [0.2, 0.1]}\n- {step: gaussian_blur, kernel_size: 5}\n"
    "- {step: sharpness, factor: 2}\n- {step: resize, size: [30, 20], interpolation: bicubic}\n",
    "- {step: decode}\n- {step: equalize}\n- {step: autocontrast}\n- {step: posterize, bits: 3}\n"
    "- {step: random_rotation, degrees: 90, interpolation: bilinear}\n- {step: centre_crop, size: "
    "50}\n"
    "- {step: normalise, mean: [0.5, 0.5, 0.5], std: [0.2, 0.2, 0.2]}\n"
    "- {step: random_erasing, value: random}\n- {step: cast, to: bf16}\n",
    "- {step: decode}\n- {step: centre_crop, size: 60}\n- {step: rand_augment}\n"
    "- {step: trivial_augment_wide, fill: 128}\n- {step: auto_augment, policy: svhn}\n",
    "- {step: decode}\n- {step: random_choice, steps: [{step: random_apply, steps: [{step: resize, "
    "size: 50}, {step: invert}]}, {step: solarize, threshold: 100}]}\n- {step: random_crop, size: "
    "30, "
    "pad_if_needed: true, padding_mode: edge}\n",
};

std::vector<Encoded> pictures() {
  std::vector<Encoded> all;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const int width = 50 + static_cast<int>(seed) * 37, height = 260 - static_cast<int>(seed) * 31;
    all.push_back(encode_jpeg(width, height, {.h = 2, .v = 2, .progressive = seed == 2}, seed));
    all.push_back(encode_jpeg(width, height, {.h = seed % 2 == 0 ? 2 : 1}, seed));
    all.push_back(encode_png(test::make_pixels(width, height, 3, seed), width, height));
  }
  all.push_back(encode_jpeg(3, 200, {.h = 2, .v = 2}));
  all.push_back(encode_jpeg(1, 1));
  return all;
}

TEST_CASE("from the decoded form, while keeping it, and from the encoded form: the same bytes") {
  for (const std::string& steps : kPipelines) {
    CAPTURE(steps);
    const auto pipeline = compile(steps);
    REQUIRE(pipeline->info().decodes());
    std::vector<std::vector<std::byte>> of_plain;
    for (const auto& preparer : test::all_preparers()) {
      std::size_t i = 0;
      for (const Encoded& picture : pictures()) {
        for (std::uint64_t key = 0; key < 4; ++key, ++i) {
          Slot encoded(*pipeline), keeping(*pipeline), decoded(*pipeline), failing(*pipeline);
          std::vector<std::byte> kept;
          REQUIRE(test::prepare(*preparer, *pipeline, {picture, false, key}, encoded) ==
                  prepare::Prepared::done);
          REQUIRE(test::prepare(*preparer, *pipeline, {picture, false, key}, keeping, &kept) ==
                  prepare::Prepared::done);
          REQUIRE(test::prepare(*preparer, *pipeline, {kept, true, key}, decoded) ==
                  prepare::Prepared::done);
          // There is no memory for what is to be kept.
          prepare::Preparer::Input input{.sample = SampleId{0}, .bytes = picture};
          input.label = 1;
          input.draw_key = key;
          const prepare::Preparer::KeepDecoded none = [](Bytes) { return nullptr; };
          REQUIRE(preparer->prepare(*pipeline, input, failing.writer(), 0, &none) ==
                  prepare::Prepared::done);
          REQUIRE(encoded.memory() == failing.memory());
          REQUIRE(encoded.memory() == keeping.memory());
          REQUIRE(encoded.memory() == decoded.memory());
          // Both kinds of inner loops give the same bytes, too.
          if (of_plain.size() <= i)
            of_plain.push_back(encoded.memory());
          else
            REQUIRE(of_plain[i] == encoded.memory());
        }
      }
    }
  }
}

TEST_CASE("the key alone decides: not the place, nor what was prepared before") {
  const auto pipeline = compile(kPipelines[0]);
  const auto used = prepare::make_preparer(), fresh = prepare::make_preparer();
  const auto all = pictures();
  Slot warm(*pipeline);
  for (const Encoded& picture : all) test::prepare(*used, *pipeline, {picture, false, 99}, warm);
  Slot first(*pipeline, 3), second(*pipeline, 3);
  REQUIRE(test::prepare(*used, *pipeline, {all[0], false, 5, 2}, first) == prepare::Prepared::done);
  REQUIRE(test::prepare(*fresh, *pipeline, {all[0], false, 5, 0}, second) ==
          prepare::Prepared::done);
  CHECK(first.field(0, 2) == second.field(0, 0));
  REQUIRE(test::prepare(*fresh, *pipeline, {all[0], false, 6, 0}, second) ==
          prepare::Prepared::done);
  CHECK(first.field(0, 2) != second.field(0, 0));  // the canary: another key is another crop
}

TEST_CASE("the label stands in the batch; a sample without one is corrupt") {
  const auto pipeline = compile(kPipelines[0]);
  REQUIRE(pipeline->spec().fields.at(1) ==
          batch::Field{"label", batch::ElementType::i64, {}, false});
  const auto preparer = prepare::make_preparer();
  const Encoded picture = encode_jpeg(60, 50);
  Slot slot(*pipeline);
  prepare::Preparer::Input input{.sample = SampleId{0}, .bytes = picture};
  input.label = 7;
  CHECK(preparer->prepare(*pipeline, input, slot.writer(), 0, nullptr) == prepare::Prepared::done);
  std::int64_t label = 0;
  std::memcpy(&label, slot.field(1).data(), sizeof label);
  CHECK(label == 7);
  input.label = -1;
  CHECK(preparer->prepare(*pipeline, input, slot.writer(), 0, nullptr) ==
        prepare::Prepared::corrupt);
  CHECK(preparer->problem() == "it has no label");
}

TEST_CASE("a sample that is given up is not prepared, and is not corrupt") {
  const auto pipeline = compile(kPipelines[0]);
  const auto preparer = prepare::make_preparer();
  const Encoded picture = encode_jpeg(60, 50);
  Slot slot(*pipeline);
  std::atomic<bool> is_given_up{true};
  prepare::Preparer::Input input{.sample = SampleId{0}, .bytes = picture};
  input.label = 7;
  input.is_given_up = &is_given_up;
  CHECK(preparer->prepare(*pipeline, input, slot.writer(), 0, nullptr) ==
        prepare::Prepared::failed);
  is_given_up = false;
  CHECK(preparer->prepare(*pipeline, input, slot.writer(), 0, nullptr) == prepare::Prepared::done);
}

#ifdef BATCHFLOW_COUNTS_NEW
TEST_CASE("once the largest picture has been seen, nothing is allocated by us") {
  for (const std::string& steps : kPipelines) {
    const auto pipeline = compile(steps);
    const auto preparer = prepare::make_preparer();
    const auto all = pictures();
    Slot slot(*pipeline);
    std::vector<std::byte> kept;
    const auto round = [&] {
      for (std::size_t i = 0; i < all.size(); ++i)
        test::prepare(*preparer, *pipeline, {all[i], false, i}, slot, i % 2 == 0 ? &kept : nullptr);
    };
    round();
    const std::uint64_t before = allocations;
    round();
    CHECK(allocations == before);
    const auto proof = std::make_unique<int>(1);  // that allocations are counted
    CHECK(allocations == before + 1);
  }
}
#endif

TEST_CASE("what is damaged is corrupt, and the next sample is none the worse for it") {
  const auto pipeline = compile(kPipelines[0]);
  const auto preparer = prepare::make_preparer();
  Slot slot(*pipeline), expected(*pipeline);
  const Encoded good = encode_jpeg(200, 150, {.h = 2, .v = 2});
  REQUIRE(test::prepare(*preparer, *pipeline, {good, false, 1}, expected) ==
          prepare::Prepared::done);
  const auto is_corrupt = [&](std::span<const std::byte> bytes, std::string_view problem) {
    for (std::uint64_t key = 0; key < 20; ++key) {  // whatever part is wanted
      REQUIRE(test::prepare(*preparer, *pipeline, {bytes, false, key}, slot) ==
              prepare::Prepared::corrupt);
      INFO(preparer->problem());
      CHECK(preparer->problem().find(problem) != std::string_view::npos);
    }
    REQUIRE(test::prepare(*preparer, *pipeline, {good, false, 1}, slot) == prepare::Prepared::done);
    CHECK(slot.memory() == expected.memory());
  };
  is_corrupt({}, "neither JPEG, PNG, BMP, WebP, TIFF nor AVIF");
  for (const bool progressive : {false, true}) {
    const Encoded jpeg = encode_jpeg(200, 150, {.h = 2, .v = 2, .progressive = progressive});
    is_corrupt(std::span(jpeg).first(jpeg.size() / 3), "");
    is_corrupt(std::span(jpeg).first(jpeg.size() * 9 / 10), "");
    is_corrupt(std::span(jpeg).first(jpeg.size() - 2), "Premature end");
    is_corrupt(std::span(jpeg).first(100), "");
  }
  const Encoded png = encode_png(test::make_pixels(80, 60, 3, 1), 80, 60);
  is_corrupt(std::span(png).first(png.size() / 2), "ends early");
  is_corrupt(std::span(png).first(20), "ends early");
  Encoded flipped = png;
  flipped[flipped.size() / 2] ^= std::byte{0x10};
  is_corrupt(flipped, "");
  std::vector<std::byte> form(20);
  REQUIRE(test::prepare(*preparer, *pipeline, {form, true, 0}, slot) == prepare::Prepared::corrupt);
}

TEST_CASE("no header makes a worker decode more than is allowed") {
  const std::string start = "- {step: decode, pixels_most: 30000}\n";
  const auto preparer = prepare::make_preparer();
  const auto crop = compile(start + "- {step: centre_crop, size: 20}\n");
  Slot slot(*crop);
  const Encoded jpeg = encode_jpeg(200, 151);
  const Encoded png = encode_png(test::make_pixels(200, 151, 3, 1), 200, 151);
  for (const Encoded* picture : {&jpeg, &png}) {
    CHECK(test::prepare(*preparer, *crop, {*picture}, slot) == prepare::Prepared::corrupt);
    CHECK(preparer->problem() == "200 x 151 pixels, of which 30000 are allowed");
  }
  CHECK(test::prepare(*preparer, *crop, {encode_jpeg(200, 150)}, slot) == prepare::Prepared::done);
  // A line would become very many lines.
  const auto resize =
      compile(start + "- {step: resize, size: 100}\n- {step: centre_crop, size: 20}\n");
  CHECK(test::prepare(*preparer, *resize, {encode_jpeg(1, 400)}, slot) ==
        prepare::Prepared::corrupt);
  CHECK(preparer->problem() == "it would be resized to 100 x 40000 pixels");
}

TEST_CASE("a progressive picture of very many scans is corrupt") {
  // One scan, repeated: all coefficients are sent again and again.
  Encoded jpeg = encode_jpeg(64, 64, {.from = JCS_GRAYSCALE, .progressive = true});
  std::size_t last = jpeg.size();
  for (std::size_t i = 0; i + 1 < jpeg.size(); ++i)
    if (jpeg[i] == std::byte{0xff} && jpeg[i + 1] == std::byte{0xda}) {
      last = i;
      break;
    }
  REQUIRE(last < jpeg.size());
  std::size_t end = last + 2;
  while (!(jpeg[end] == std::byte{0xff} && jpeg[end + 1] != std::byte{0})) ++end;
  const Encoded scan(jpeg.begin() + static_cast<std::ptrdiff_t>(last),
                     jpeg.begin() + static_cast<std::ptrdiff_t>(end));
  Encoded many(jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(end));
  for (int i = 0; i < 200; ++i) many.insert(many.end(), scan.begin(), scan.end());
  many.push_back(std::byte{0xff});
  many.push_back(std::byte{0xd9});
  const auto pipeline = compile(kPipelines[0]);
  const auto preparer = prepare::make_preparer();
  Slot slot(*pipeline);
  CHECK(test::prepare(*preparer, *pipeline, {many}, slot) == prepare::Prepared::corrupt);
}

TEST_CASE("an interlaced PNG is the one that is not") {
  const auto pipeline = compile(kPipelines[1]);
  const auto preparer = prepare::make_preparer();
  const auto pixels = test::make_pixels(41, 33, 3, 5);
  Slot plain(*pipeline), interlaced(*pipeline);
  for (std::uint64_t key = 0; key < 5; ++key) {
    REQUIRE(test::prepare(*preparer, *pipeline, {encode_png(pixels, 41, 33), false, key}, plain) ==
            prepare::Prepared::done);
    const Encoded other = encode_png(pixels, 41, 33, PNG_COLOR_TYPE_RGB, 8, true);
    REQUIRE(test::prepare(*preparer, *pipeline, {other, false, key}, interlaced) ==
            prepare::Prepared::done);
    CHECK(plain.memory() == interlaced.memory());
  }
}

}  // namespace
}  // namespace batchflow::test::prepare_test
