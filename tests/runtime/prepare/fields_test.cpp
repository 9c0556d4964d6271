// Pipelines of several fields: what goes along with a picture goes where its pixels go.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "runtime/audio/sound_file.h"
#include "runtime/sources/npy.h"
#include "runtime/sources/pack_dataset.h"
#include "tests/config_error.h"
#include "tests/runtime/prepare/golden.h"
#include "tests/runtime/prepare/harness.h"
#include "tests/runtime/prepare/pictures.h"
#include "tests/runtime/sources/dataset_files.h"
#include "tests/skip.h"
#include "tests/source_dir.h"

namespace batchflow::test::fields_test {
namespace {

using prepare::Prepared;

std::string text_of(std::span<const std::byte> bytes) {
  return std::string(sources::as_text(bytes));
}
template <class T>
std::string npy(std::string_view type, std::string_view shape, const std::vector<T>& values) {
  return sources::npy_head(type, shape) + text_of(std::as_bytes(std::span(values)));
}
std::string boxes_npy(const std::vector<float>& boxes) {
  return npy("<f4", fmt::format("({}, 4)", boxes.size() / 4), boxes);
}

// A sample of a tar: pairs of an ending and what stands there.
using Members = std::vector<std::pair<std::string, std::string>>;
std::vector<std::byte> tar_sample(const Members& members) {
  std::string tar;
  for (const auto& [ending, bytes] : members) tar += tar_member("sample." + ending, bytes);
  const auto bytes = std::as_bytes(std::span(tar));
  return {bytes.begin(), bytes.end()};
}

// Where nothing is known of the samples' parts.
FakeDataset unknown_parts(sources::RecordKind kind = sources::RecordKind::tar) {
  return FakeDataset(kind, {}, {100'000}, false);
}
FakeDataset known_parts() {
  const auto part = [](std::string name, batch::ElementType type = batch::ElementType::u8) {
    return batch::Field{std::move(name), type, {1000}, true};
  };
  return FakeDataset(
      sources::RecordKind::tar,
      {{part("boxes.json"), part("boxes.npy"), part("jpg"), part("mask.png"), part("txt")}},
      {100'000}, false);
}

std::unique_ptr<prepare::Pipeline> pipeline(std::string_view fields, std::string_view steps,
                                            const sources::SampleIndex& dataset) {
  return test::compile(
      input::parse_yaml(fmt::format("name: test\nfields:\n{}\nsteps: {}\n", fields, steps),
                        "test.yaml"),
      dataset);
}
std::unique_ptr<prepare::Pipeline> pipeline(std::string_view fields, std::string_view steps) {
  return pipeline(fields, steps, unknown_parts());
}
std::string refusal(std::string_view fields, std::string_view steps,
                    const sources::SampleIndex& dataset) {
  return config_error([&] { pipeline(fields, steps, dataset); }, "it was taken");
}

// One sample, prepared.
class Made {
 public:
  Made(std::string_view fields, std::string_view steps, const Members& members,
       std::uint64_t draw_key = 0)
      : Made(pipeline(fields, steps), tar_sample(members), draw_key) {}
  Made(std::unique_ptr<prepare::Pipeline> compiled, const std::vector<std::byte>& record,
       std::uint64_t draw_key = 0)
      : pipeline_(std::move(compiled)),
        preparer_(prepare::make_preparer()),
        layout_(pipeline_->spec(), 1),
        slot_(*pipeline_) {
    result = test::prepare(*preparer_, *pipeline_, {.bytes = record, .draw_key = draw_key}, slot_);
    problem = preparer_->problem();
  }

  template <class T>
  std::vector<T> field(std::string_view name) {
    const auto& fields = pipeline_->spec().fields;
    const auto at = static_cast<std::size_t>(pipeline_->spec().find(name) - fields.data());
    std::uint64_t rows = 1;
    if (fields[at].ragged)
      std::memcpy(&rows, slot_.memory().data() + layout_.fields[at].offsets + 8, sizeof rows);
    std::vector<T> values(rows * fields[at].row_bytes() / sizeof(T));
    if (values.empty()) return values;
    std::memcpy(values.data(), slot_.memory().data() + layout_.fields[at].values,
                values.size() * sizeof(T));
    return values;
  }
  const batch::BatchSpec& spec() const { return pipeline_->spec(); }

  Prepared result = Prepared::failed;
  std::string problem;

 private:
  std::unique_ptr<prepare::Pipeline> pipeline_;
  std::unique_ptr<prepare::Preparer> preparer_;
  batch::BlockLayout layout_;
  Slot slot_;
};

constexpr std::string_view kPicture = "  - {field: image, kind: picture}\n";
constexpr std::string_view kBoxes =
    "  - {field: image, kind: picture}\n"
    "  - {field: boxes, kind: boxes, from: boxes.npy}\n";
constexpr std::string_view kDecode = "[{step: decode}, {step: resize, size: [30, 40]}]";

std::string picture(int width = 40, int height = 30) {
  return text_of(encode_png(make_pixels(width, height, 3, 1), width, height));
}

// ---------------------------------------------------------------------------- torchvision ----

// Some of `some`, at most `most`, between decoding and `last`.
std::string random_steps(Random& random, const std::vector<std::string>& some, std::uint64_t most,
                         const std::string& last) {
  std::string steps = "[{step: decode}";
  for (std::uint64_t left = 1 + random.below(most); left > 0; --left)
    steps += ", " + some[random.below(some.size())];
  return steps + ", " + last + "]";
}

// See make_golden_fields.py. The last bits of boxes and points may differ where a padding and a
// crop are one step of ours, and where they are turned: a matrix of f32 is multiplied there, and
// one of f64 here.
TEST_CASE("masks, boxes and points go where torchvision's transforms put them") {
  const auto folder = source_dir() / "tests/runtime/prepare/golden_fields";
  const config::ConfigNode root = input::read_yaml_file(folder / "cases.yaml");
  CHECK(root.find("cases")->list.size() >= 22);
  for (const config::ConfigNode& node : root.find("cases")->list) {
    const std::string name = node.find("name")->scalar;
    INFO(name);
    const float most = name.starts_with("rotation") || name.starts_with("affine") ? 1e-4f
                       : name.starts_with("padded")                               ? 4e-6f
                                                                                  : 0.0f;
    Made made(test::compile(*node.find("pipeline"), unknown_parts()),
              read_file(folder / (name + ".tar")), *parse_unsigned(node.find("draw_key")->scalar));
    REQUIRE_MESSAGE(made.result == Prepared::done, made.problem);
    const auto expected = [&](std::string_view field) {
      return read_file(folder / fmt::format("{}.{}.bin", name, field));
    };
    CHECK(made.field<std::byte>("mask") == expected("mask"));
    CHECK(made.field<std::byte>("labels") == expected("labels"));
    for (const std::string_view field : {"boxes", "points"}) {
      const auto want = expected(field);
      const auto got = made.field<float>(field);
      REQUIRE(got.size() * sizeof(float) == want.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        float value;
        std::memcpy(&value, want.data() + i * sizeof value, sizeof value);
        CHECK(std::fabs(got[i] - value) <= most);
      }
    }
  }
}

// ----------------------------------------------------------------------------- one draw ----

// Pixels of the picture say where they come from, and so do those of the mask. Both are scaled by
// the nearest pixel, so after any steps they still say the same, and nothing else.
TEST_CASE("a mask has the geometry of its picture, pixel by pixel") {
  constexpr int width = 50, height = 41;
  std::vector<std::uint8_t> colours, numbers;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      colours.insert(colours.end(),
                     {static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y), 9});
      numbers.insert(numbers.end(), {static_cast<std::uint8_t>(y), static_cast<std::uint8_t>(x)});
    }
  const Members members = {
      {"png", text_of(encode_png(colours, width, height))},
      {"mask.png", text_of(encode_png(numbers, width, height, PNG_COLOR_TYPE_GRAY, 16))}};
  const std::string fields = std::string(kPicture) +
                             "  - {field: mask, kind: mask, from: mask.png, fill: 65535, "
                             "steps: [{step: cast, to: i32}]}";
  const std::vector<std::string> some = {
      "{step: resize, size: 37, interpolation: nearest}",
      "{step: random_resized_crop, size: [33, 44], interpolation: nearest}",
      "{step: random_crop, size: 30, padding: 4, pad_if_needed: true, fill: 255}",
      "{step: pad, padding: [1, 2, 3, 4], padding_mode: reflect}",
      "{step: horizontal_flip}",
      "{step: vertical_flip}",
      "{step: random_rotation, degrees: 90, fill: 255}",
      "{step: random_affine, degrees: 20, translate: [0.1, 0.2], shear: 10, fill: 255}",
      "{step: random_choice, steps: [{step: horizontal_flip}, {step: random_rotation, degrees: 9, "
      "fill: 255}]}"};
  Random random(5);
  std::size_t moved = 0;
  for (std::uint64_t key = 0; key < 300; ++key) {
    const std::string steps = random_steps(
        random, some, 4, "{step: random_resized_crop, size: [20, 24], interpolation: nearest}");
    INFO(steps << " key " << key);
    Made made(fields, steps, members, key);
    REQUIRE_MESSAGE(made.result == Prepared::done, made.problem);
    const auto image = made.field<std::uint8_t>("image");
    const auto mask = made.field<std::int32_t>("mask");
    REQUIRE(image.size() == 3 * mask.size());
    std::size_t differ = 0;
    for (std::size_t i = 0; i < mask.size(); ++i)
      differ += mask[i] != (image[3 * i] | image[3 * i + 1] << 8);
    CHECK(differ == 0);
    moved += mask[0] != 0;
  }
  CHECK(moved > 200);
}

// A box of one object, and a mask that is 1 there: the box stays around what is shown of the
// object, and as close to it as a turned box can be.
TEST_CASE("boxes and points stay with the pixels that they are of") {
  constexpr int width = 60, height = 50;
  const std::vector<std::string> some = {
      "{step: resize, size: 64}",
      "{step: random_resized_crop, size: [50, 60]}",
      "{step: random_crop, size: 40, padding: 4, pad_if_needed: true}",
      "{step: pad, padding: [1, 2, 3, 4]}",
      "{step: horizontal_flip}",
      "{step: vertical_flip}",
      "{step: rand_augment, operations: 1}",
      "{step: random_affine, degrees: 0, translate: [0.1, 0.2], scale: [0.7, 1.4]}"};
  const std::string fields = std::string(kBoxes) +
                             "  - {field: mask, kind: mask, from: mask.png}\n"
                             "  - {field: points, kind: points, from: points.npy}\n";
  Random random(8);
  int seen = 0, middles = 0;
  for (std::uint64_t key = 0; key < 300; ++key) {
    const int x = static_cast<int>(random.below(40)), y = static_cast<int>(random.below(30));
    const int right = x + 4 + static_cast<int>(random.below(16)),
              lower = y + 4 + static_cast<int>(random.below(16));
    std::vector<std::uint8_t> object(width * height, 0);
    for (int row = y; row < lower; ++row)
      for (int column = x; column < right; ++column) object[row * width + column] = 1;
    const auto real = [](int value) { return static_cast<float>(value); };
    const Members members = {
        {"png", picture(width, height)},
        {"mask.png", text_of(encode_png(object, width, height, PNG_COLOR_TYPE_GRAY))},
        {"boxes.npy", boxes_npy({real(x), real(y), real(right), real(lower)})},
        {"points.npy",
         npy<float>("<f4", "(1, 2)", {real(x + right - 1) / 2, real(y + lower - 1) / 2})}};
    const std::string steps = random_steps(random, some, 3, "{step: centre_crop, size: [50, 60]}");
    INFO(steps << " key " << key);
    Made made(fields, steps, members, key);
    REQUIRE_MESSAGE(made.result == Prepared::done, made.problem);
    const auto mask = made.field<std::uint8_t>("mask");
    const auto box = made.field<float>("boxes");
    int first_x = width, first_y = height, last_x = -1, last_y = -1;
    for (int row = 0; row < height; ++row)
      for (int column = 0; column < width; ++column)
        if (mask[row * width + column] == 1) {
          first_x = std::min(first_x, column);
          last_x = std::max(last_x, column);
          first_y = std::min(first_y, row);
          last_y = std::max(last_y, row);
        }
    if (last_x < 0) continue;
    ++seen;
    // Each step may round by a pixel, where the object is as much larger as the picture.
    const bool turned = steps.find("rand_augment") != std::string::npos;
    const float least = 3.0f, most = turned ? 24.0f : 3.0f;
    CHECK(box[0] <= real(first_x) + least);
    CHECK(box[1] <= real(first_y) + least);
    CHECK(box[2] >= real(last_x + 1) - least);
    CHECK(box[3] >= real(last_y + 1) - least);
    CHECK(box[0] >= real(first_x) - most);
    CHECK(box[1] >= real(first_y) - most);
    CHECK(box[2] <= real(last_x + 1) + most);
    CHECK(box[3] <= real(last_y + 1) + most);
    // The middle of an object that is shown whole is in the middle of its pixels. Where a step
    // before the last cuts something off, that is not known.
    const bool cut = steps.find("random_resized") != std::string::npos || turned ||
                     steps.find("random_crop") != std::string::npos ||
                     steps.find("affine") != std::string::npos;
    const bool whole =
        !cut && first_x > 0 && first_y > 0 && last_x + 1 < width && last_y + 1 < height;
    const auto point = made.field<float>("points");
    middles += whole;
    if (whole) {
      CHECK(std::fabs(point[0] - real(first_x + last_x) / 2) <= 3.0f);
      CHECK(std::fabs(point[1] - real(first_y + last_y) / 2) <= 3.0f);
    }
  }
  CHECK(seen > 100);
  CHECK(middles > 20);
}

TEST_CASE("steps of colour change no mask, and other fields change no picture") {
  const Members members = {
      {"png", picture()},
      {"mask.png", text_of(encode_png(make_pixels(40, 30, 1, 2), 40, 30, PNG_COLOR_TYPE_GRAY))},
      {"boxes.npy", boxes_npy({1, 2, 3, 4})},
      {"txt", "a cat"}};
  const std::string crop = "{step: random_resized_crop, size: 24}, {step: horizontal_flip}";
  const std::string colours =
      "{step: colour_jitter, brightness: 0.5, hue: 0.2}, {step: gaussian_blur, "
      "kernel_size: 3}, {step: normalise, mean: [0, 0, 0], std: [1, 1, 1]}, "
      "{step: layout, order: nchw}";
  const std::string all = std::string(kBoxes) +
                          "  - {field: mask, kind: mask, from: mask.png}\n"
                          "  - {field: words, kind: bytes, from: txt}\n";
  for (std::uint64_t key = 0; key < 20; ++key) {
    const std::string steps = fmt::format("[{{step: decode}}, {}, {}]", crop, colours);
    Made made(all, steps, members, key);
    REQUIRE_MESSAGE(made.result == Prepared::done, made.problem);
    Made plain(all, fmt::format("[{{step: decode}}, {}]", crop), members, key);
    CHECK(made.field<std::uint8_t>("mask") == plain.field<std::uint8_t>("mask"));
    CHECK(made.field<float>("boxes") == plain.field<float>("boxes"));
    CHECK(made.field<char>("words") == std::vector<char>{'a', ' ', 'c', 'a', 't'});
    // The pipeline of one picture makes the same bytes.
    Made alone(test::compile(input::parse_yaml("name: test\nsteps: " + steps, "test.yaml"),
                             unknown_parts()),
               tar_sample(members), key);
    REQUIRE(alone.result == Prepared::done);
    CHECK(made.field<float>("image") == alone.field<float>("image"));
  }
}

TEST_CASE("samples of several fields come out of the kept decoded form as out of the record") {
  const std::vector<std::byte> record = tar_sample(
      {{"png", picture(50, 41)},
       {"mask.png", text_of(encode_png(make_pixels(50, 41, 1, 2), 50, 41, PNG_COLOR_TYPE_GRAY))},
       {"boxes.npy", boxes_npy({1.1f, 2.2f, 30.3f, 24.4f, 7, 8, 9, 10})},
       {"json", R"({"p": [[1.7, 2.3], [30.9, 4]], "l": [7, 8]})"},
       {"txt", "words"}});
  const std::string fields =
      std::string(kBoxes) +
      "  - {field: mask, kind: mask, from: mask.png}\n"
      "  - {field: points, kind: points, from: json, key: p}\n"
      "  - {field: labels, kind: numbers, from: json, key: l, type: i64, rows_of: boxes}\n"
      "  - {field: words, kind: bytes, from: txt}\n";
  for (const std::string_view steps :
       {"[{step: decode}, {step: random_resized_crop, size: 20}, {step: horizontal_flip}]",
        "[{step: decode}, {step: resize, size: 33}, {step: random_crop, size: 20, padding: 3}]",
        "[{step: decode}, {step: pad, padding: 3}, {step: centre_crop, size: 40}, {step: "
        "random_crop, size: 20}]",
        "[{step: decode}, {step: greyscale}, {step: random_rotation, degrees: 40}, {step: resize, "
        "size: [9, 9]}]"}) {
    INFO(steps);
    const auto compiled = pipeline(fields, steps);
    const auto preparer = prepare::make_preparer();
    for (const std::uint64_t key : {1, 2, 3, 4}) {
      Slot plain(*compiled), keeping(*compiled), from_kept(*compiled);
      std::vector<std::byte> kept;
      REQUIRE(test::prepare(*preparer, *compiled, {.bytes = record, .draw_key = key}, plain) ==
              Prepared::done);
      REQUIRE(test::prepare(*preparer, *compiled, {.bytes = record, .draw_key = key}, keeping,
                            &kept) == Prepared::done);
      REQUIRE(test::prepare(*preparer, *compiled, {.bytes = kept, .decoded = true, .draw_key = key},
                            from_kept) == Prepared::done);
      CHECK(plain.memory() == keeping.memory());
      CHECK(plain.memory() == from_kept.memory());
      for (const std::size_t bytes : {std::size_t{0}, std::size_t{20}, kept.size() - 1}) {
        CHECK(test::prepare(*preparer, *compiled,
                            {.bytes = std::span(kept).first(bytes), .decoded = true},
                            from_kept) == Prepared::corrupt);
        CHECK(preparer->problem() == "the decoded form is damaged");
      }
    }
  }
}

// -------------------------------------------------------------------------------- kinds ----

TEST_CASE("a mask has the numbers that Pillow shows of it") {
  const auto mask = [](const Encoded& png, std::string_view type = "u8") {
    return Made(
        std::string(kPicture) +
            fmt::format("  - {{field: mask, kind: mask, from: mask.png, steps: [{{step: cast, "
                        "to: {}}}]}}",
                        type),
        "[{step: decode}, {step: resize, size: [2, 4]}]",
        {{"png", picture(4, 2)}, {"mask.png", text_of(png)}});
  };
  const std::vector<std::uint8_t> two_bits = {0b00011011, 0b11100100};
  CHECK(mask(encode_png(two_bits, 4, 2, PNG_COLOR_TYPE_PALETTE, 2)).field<std::uint8_t>("mask") ==
        std::vector<std::uint8_t>{0, 1, 2, 3, 3, 2, 1, 0});
  CHECK(mask(encode_png(two_bits, 4, 2, PNG_COLOR_TYPE_GRAY, 2)).field<std::uint8_t>("mask") ==
        std::vector<std::uint8_t>{0, 85, 170, 255, 255, 170, 85, 0});
  CHECK(mask(encode_png({0xa0, 0x50}, 4, 2, PNG_COLOR_TYPE_GRAY, 1)).field<std::uint8_t>("mask") ==
        std::vector<std::uint8_t>{1, 0, 1, 0, 0, 1, 0, 1});
  CHECK(mask(encode_png({0, 200, 255, 3, 4, 5, 6, 7}, 4, 2, PNG_COLOR_TYPE_PALETTE, 8))
            .field<std::uint8_t>("mask") == std::vector<std::uint8_t>{0, 200, 255, 3, 4, 5, 6, 7});
  const std::vector<std::uint8_t> wide = {1, 2, 0, 3, 0, 0, 255, 255, 0, 1, 0, 2, 0, 3, 0, 4};
  const Encoded wide_png = encode_png(wide, 4, 2, PNG_COLOR_TYPE_GRAY, 16);
  CHECK(mask(wide_png, "i64").field<std::int64_t>("mask") ==
        std::vector<std::int64_t>{258, 3, 0, 65535, 1, 2, 3, 4});
  CHECK(mask(wide_png, "f32").field<float>("mask")[3] == 65535.0f);
  Made narrow = mask(wide_png);
  CHECK(narrow.result == Prepared::corrupt);
  CHECK(narrow.problem == "field 'mask': it has a value that is no u8");
  // Three channels are one number, as in COCO's panoptic pictures.
  std::vector<std::uint8_t> colours(24, 0);
  colours[0] = 5, colours[1] = 1, colours[2] = 2;
  CHECK(mask(encode_png(colours, 4, 2), "i32").field<std::int32_t>("mask")[0] ==
        5 + 256 + 2 * 65536);
}

TEST_CASE("a mask may be an array of NumPy") {
  const auto mask = [](const std::string& npy) {
    return Made(
        std::string(kPicture) +
            "  - {field: mask, kind: mask, from: mask.npy, steps: [{step: cast, to: i64}]}",
        "[{step: decode}, {step: horizontal_flip, probability: 1}, {step: centre_crop, size: "
        "[2, 3]}]",
        {{"png", picture(3, 2)}, {"mask.npy", npy}});
  };
  for (const std::string_view shape : {"(2, 3)", "(1, 2, 3)", "(2, 3, 1)"}) {
    Made made = mask(npy<std::int32_t>("<i4", shape, {1, 2, 300, 4, 5, 70000}));
    REQUIRE_MESSAGE(made.result == Prepared::done, made.problem);
    CHECK(made.field<std::int64_t>("mask") == std::vector<std::int64_t>{300, 2, 1, 70000, 5, 4});
  }
  CHECK(mask(npy<std::int32_t>("<i4", "(2, 3)", {1, 2, -1, 4, 5, 6})).problem ==
        "field 'mask': it has the value -1, and masks have 0 to 16777215");
  CHECK(mask(npy<float>("<f4", "(2, 3)", std::vector<float>(6))).problem ==
        "field 'mask': its values are no whole numbers");
  CHECK(mask(npy<std::int32_t>("<i4", "(3, 2)", std::vector<std::int32_t>(6))).problem ==
        "field 'mask': it has 2 x 3 pixels, and its picture 3 x 2");
  CHECK(mask(npy<std::int32_t>("<i4", "(2, 3)", {1})).result == Prepared::corrupt);
}

TEST_CASE("boxes are read in each format, from NumPy and from JSON") {
  const auto boxes = [](std::string_view more, const Members& members) {
    return Made(std::string(kPicture) + fmt::format("  - {{field: boxes, kind: boxes, {}}}", more),
                kDecode, members);
  };
  const auto boxes_of = [&](std::string_view more, std::string part, const std::string& bytes) {
    Made made = boxes(more, {{"png", picture()}, {std::move(part), bytes}});
    REQUIRE_MESSAGE(made.result == Prepared::done, made.problem);
    return made.field<float>("boxes");
  };
  const std::vector<float> corners = {10, 6, 30, 20};
  CHECK(boxes_of("from: b.npy", "b.npy", boxes_npy(corners)) == corners);
  CHECK(boxes_of("from: b.npy, format: xywh", "b.npy", boxes_npy({10, 6, 20, 14})) == corners);
  CHECK(boxes_of("from: b.npy, format: cxcywh", "b.npy", boxes_npy({20, 13, 20, 14})) == corners);
  CHECK(boxes_of("from: b.npy, shares: true", "b.npy", boxes_npy({0.25f, 0.2f, 0.75f, 2.0f / 3})) ==
        corners);
  CHECK(boxes_of("from: b.npy", "b.npy", npy<std::int64_t>("<i8", "(1, 4)", {10, 6, 30, 20})) ==
        corners);
  CHECK(boxes_of("from: json, key: boxes", "json", R"({"boxes": [[10, 6, 30.0, 20]], "n": 1})") ==
        corners);
  CHECK(boxes_of("from: json, key: objects.bbox, format: xywh", "json",
                 R"({"objects": [{"bbox": [10, 6, 20, 14], "id": 7}, {"x": {"bbox": 1}},
                           {"bbox": [0, 0, 1, 1]}], "bbox": [4]})") ==
        std::vector<float>{10, 6, 30, 20, 0, 0, 1, 1});
  CHECK(boxes_of("from: boxes.json", "boxes.json", "[10, 6, 30, 20]") == corners);
  CHECK(boxes_of("from: boxes.json", "boxes.json", "[10, 6, 30, 20, 1, 2, 3, 4]").size() == 8);
  CHECK(boxes_of("from: boxes.json", "boxes.json", "[]").empty());
  CHECK(boxes_of("from: b.npy", "b.npy", npy<double>("<f8", "(0,)", {})).empty());
  // What lies outside is clipped.
  CHECK(boxes_of("from: b.npy", "b.npy", boxes_npy({-5, 10, 50, 99})) ==
        std::vector<float>{0, 10, 40, 30});
  CHECK(boxes_of("from: b.npy, sanitise: {side: 4}", "b.npy",
                 boxes_npy({1, 1, 4, 20, 50, 50, 60, 60, 1, 1, 5, 5, 9, 9, 3, 3})) ==
        std::vector<float>{1, 1, 5, 5});
}

TEST_CASE("rows that belong to boxes leave with them") {
  const std::string fields =
      std::string(kPicture) +
      "  - {field: labels, kind: numbers, from: json, key: o.label, type: i32, rows_of: boxes}\n"
      "  - {field: boxes, kind: boxes, from: json, key: o.box, sanitise: {}, most: 3}\n"
      "  - {field: joints, kind: points, from: json, key: o.joints, shape: [2, 3], rows_of: "
      "boxes}\n";
  const std::string json =
      R"({"o": [{"box": [1, 1, 5, 5], "label": 3, "joints": [[1, 2, 1], [3, 4, 0]]},
                {"box": [50, 1, 55, 5], "label": 4, "joints": [[9, 9, 1], [9, 9, 0]]},
                {"box": [2, 2, 9, 9], "label": 5, "joints": [[5, 6, 1], [7, 8, 2]]}]})";
  Made made(
      fields,
      "[{step: decode}, {step: horizontal_flip, probability: 1}, {step: resize, size: [60, 80]}]",
      {{"png", picture()}, {"json", json}});
  REQUIRE_MESSAGE(made.result == Prepared::done, made.problem);
  CHECK(made.field<float>("boxes") == std::vector<float>{70, 2, 78, 10, 62, 4, 76, 18});
  CHECK(made.field<std::int32_t>("labels") == std::vector<std::int32_t>{3, 5});
  CHECK(made.field<float>("joints") ==
        std::vector<float>{76, 4, 1, 72, 8, 0, 68, 12, 1, 64, 16, 2});
  CHECK(made.spec().find("joints")->shape == std::vector<std::uint64_t>{3, 2, 3});
  CHECK(made.spec().find("labels")->shape == std::vector<std::uint64_t>{3});
  Made short_of(fields, kDecode,
                {{"png", picture()},
                 {"json", R"({"o": [{"box": [1, 1, 5, 5], "joints": [[1, 2, 1], [3, 4, 0]]}]})"}});
  CHECK(short_of.result == Prepared::corrupt);
  CHECK(short_of.problem == "field 'labels': it has 0 rows, and 'boxes' 1");
}

TEST_CASE("annotations of COCO are read as they are") {
  Made made(
      std::string(kPicture) +
          "  - {field: boxes, kind: boxes, from: json, key: annotations.bbox, format: xywh, "
          "sanitise: {}}\n"
          "  - {field: classes, kind: numbers, from: json, key: annotations.category_id, type: "
          "i64, rows_of: boxes}\n"
          "  - {field: joints, kind: points, from: json, key: annotations.keypoints, shape: "
          "[3, 3], rows_of: boxes}\n"
          "  - {field: crowd, kind: numbers, from: json, key: annotations.iscrowd, type: u8, "
          "rows_of: boxes}\n",
      kDecode, {{"png", picture()}, {"json", R"({"image_id": 9, "annotations": [
               {"bbox": [1.5, 2, 10, 8], "category_id": 18, "iscrowd": 0, "id": 1,
                "keypoints": [1, 2, 2, 3, 4, 1, 0, 0, 0], "segmentation": [[1, 2, 3, 4, 5, 6]]},
               {"bbox": [5, 5, 0, 8], "category_id": 3, "iscrowd": 1, "id": 2,
                "keypoints": [0, 0, 0, 0, 0, 0, 0, 0, 0], "segmentation": {"counts": [9]}},
               {"bbox": [20, 20, 5, 5], "category_id": 1, "iscrowd": 1, "id": 3,
                "keypoints": [9, 8, 7, 6, 5, 4, 3, 2, 1], "segmentation": []}]})"}});
  REQUIRE_MESSAGE(made.result == Prepared::done, made.problem);
  CHECK(made.field<float>("boxes") == std::vector<float>{1.5f, 2, 11.5f, 10, 20, 20, 25, 25});
  CHECK(made.field<std::int64_t>("classes") == std::vector<std::int64_t>{18, 1});
  CHECK(made.field<std::uint8_t>("crowd") == std::vector<std::uint8_t>{0, 1});
  CHECK(made.field<float>("joints").size() == 18);
  CHECK(made.field<float>("joints")[9] == 9);
}

TEST_CASE("texts and numbers go along, with steps of their own") {
  const std::string fields =
      std::string(kPicture) +
      "  - {field: caption, kind: bytes, from: txt, most: 8}\n"
      "  - {field: first, kind: bytes, from: json, key: captions}\n"
      "  - {field: tokens, kind: bytes, from: txt, steps: [{step: tokens, length: 4, pad_with: 1}, "
      "{step: cast, to: i64}]}\n"
      "  - {field: id, kind: numbers, from: json, key: id, type: i64}\n"
      "  - {field: vector, kind: numbers, from: v.npy, type: f32, shape: [3]}\n"
      "  - {field: extra, kind: numbers, from: e.npy, type: u8, ragged: true, optional: true}\n";
  const Members members = {{"png", picture()},
                           {"txt", "cat"},
                           {"json", R"({"captions": ["zwei", "drei"], "id": 9007199254740993})"},
                           {"v.npy", npy<double>("<f8", "(3,)", {1, 2.5, -3})}};
  Made made(fields, kDecode, members);
  REQUIRE_MESSAGE(made.result == Prepared::done, made.problem);
  CHECK(made.field<char>("caption") == std::vector<char>{'c', 'a', 't'});
  CHECK(made.field<char>("first") == std::vector<char>{'z', 'w', 'e', 'i'});
  CHECK(made.field<std::int64_t>("tokens") == std::vector<std::int64_t>{'c', 'a', 't', 1});
  CHECK(made.field<std::int64_t>("id") == std::vector<std::int64_t>{9007199254740993});
  CHECK(made.field<float>("vector") == std::vector<float>{1, 2.5f, -3});
  CHECK(made.field<std::uint8_t>("extra").empty());
  std::vector<std::string> names;
  for (const batch::Field& field : made.spec().fields) names.push_back(field.name);
  CHECK(names ==
        std::vector<std::string>{"image", "caption", "first", "tokens", "id", "vector", "extra"});
}

TEST_CASE("sounds go along, with steps of their own") {
  if (!audio::has_sound_files()) return skipped("libsndfile1-dev is not installed");
  const std::string sound =
      text_of(read_file(source_dir() / "tests/runtime/prepare/golden_sound/mono.wav"));
  const auto entry = [](std::string_view name, std::string_view more) {
    return fmt::format(
        "  - {{field: {}, kind: sound, from: wav, steps: [{{step: decode_sound, rate: "
        "16000}}{}]}}\n",
        name, more);
  };
  const std::string fields =
      entry("whole", "") + entry("noisy", ", {step: random_cut_sound, frames: 2000}") +
      entry("clean", ", {step: random_cut_sound, frames: 2000}") +
      entry("mel",
            ", {step: cut_sound, frames: 1600}, {step: mel_spectrogram, n_fft: 400, mels: 20}, "
            "{step: cast, to: f16}") +
      "  - {field: text, kind: bytes, from: txt}\n" + std::string(kPicture);
  const std::string steps = "[{step: decode}, {step: random_resized_crop, size: 16}]";
  const Members members{{"txt", "what is said"},
                        {"wav", sound},
                        {"png", text_of(encode_png(make_pixels(20, 30, 3, 1), 20, 30, {}))}};
  std::set<std::size_t> starts;
  for (std::uint64_t key = 0; key < 20; ++key) {
    Made made(fields, steps, members, key);
    REQUIRE_MESSAGE(made.result == Prepared::done, made.problem);
    const std::vector<float> whole = made.field<float>("whole"), noisy = made.field<float>("noisy");
    REQUIRE(noisy.size() == 2000);
    const auto found = std::search(whole.begin(), whole.end(), noisy.begin(), noisy.end());
    REQUIRE(found != whole.end());
    starts.insert(static_cast<std::size_t>(found - whole.begin()));
    // Two of one length are cut alike.
    CHECK(made.field<float>("clean") == noisy);
    CHECK(made.field<std::uint8_t>("text").size() == 12);
    // The picture is the one without these fields.
    CHECK(made.field<std::uint8_t>("image") ==
          Made(kPicture, steps, members, key).field<std::uint8_t>("image"));
  }
  CHECK(starts.size() > 10);
  const Made made(fields, steps, members);
  const auto& all = made.spec().fields;
  CHECK(all[0].ragged);
  CHECK(all[3].type == batch::ElementType::f16);
  CHECK(all[3].shape[0] == 20);
  // Its decoded form is the picture's, and the sound comes out of the record behind it.
  CHECK(pipeline(fields, "[{step: decode}, {step: resize, size: [16, 16]}]", unknown_parts())
            ->info()
            .prefix_hash == pipeline(fields,
                                     "[{step: decode}, {step: resize, size: [16, 16]}, "
                                     "{step: random_crop, size: 8}]",
                                     unknown_parts())
                                ->info()
                                .prefix_hash);

  const auto says = [&](std::string_view text, const Members& sample, std::string_view expected) {
    const Made wrong(text, "[]", sample);
    CHECK(wrong.result == Prepared::corrupt);
    CHECK_MESSAGE(wrong.problem.find(expected) == 0, wrong.problem);
  };
  says(entry("a", ""), {{"wav", "no sound"}}, "field 'a': ");
  says(entry("a", ""), {{"wav", sound.substr(0, sound.size() / 2)}}, "field 'a': ");
  says(entry("a", ""), {{"txt", "text"}}, "it has no 'wav', of which field 'a' is");
}

TEST_CASE("sounds that cannot be are refused when the pipeline is compiled") {
  if (!audio::has_sound_files()) return skipped("libsndfile1-dev is not installed");
  const auto says = [&](std::string_view fields, std::string_view steps,
                        std::string_view expected) {
    const std::string text = refusal(fields, steps, unknown_parts());
    CHECK_MESSAGE(text.find(expected) != std::string::npos, text);
  };
  says("  - {field: a, kind: sound, from: wav}\n", "[]",
       "field 'a' is a sound, and is not decoded; write steps: [{step: decode_sound");
  says("  - {field: a, kind: sound, from: wav, steps: [{step: cast, to: f16}]}\n", "[]",
       "field 'a' is a sound, and is not decoded");
  says("  - {field: a, kind: sound, from: wav, steps: [{step: cut_sound, frames: 9}]}\n", "[]",
       "there is no sound yet");
  says("  - {field: a, kind: sound, from: wav, steps: [{step: tokens, length: 9}]}\n", "[]",
       "'tokens' does not work on field 'a', which is of kind sound; write decode_sound");
  says("  - {field: a, kind: bytes, from: wav, steps: [{step: decode_sound, rate: 16000}]}\n", "[]",
       "'decode_sound' does not work on field 'a', which is of kind bytes");
  says("  - {field: a, kind: bytes, from: wav}\n", "[{step: decode_sound, rate: 16000}]",
       "sounds beside other fields have steps of their own");
  says(
      "  - {field: a, kind: sound, from: wav, steps: [{step: decode_sound, rate: 16000, channels: "
      "2}]}\n",
      "[]", "sounds of several channels would have different lengths");
  says("  - {field: a, kind: sound, from: wav, optional: true}\n", "[]", "which has no 'optional'");
}

TEST_CASE("fields need no picture") {
  Made made(
      "  - {field: text, kind: bytes, from: txt}\n  - {field: n, kind: numbers, from: n.npy, "
      "type: i64, ragged: true}\n",
      "[]", {{"txt", "x"}, {"n.npy", npy<std::int64_t>("<i8", "(2,)", {5, 6})}});
  REQUIRE_MESSAGE(made.result == Prepared::done, made.problem);
  CHECK(made.field<std::int64_t>("n") == std::vector<std::int64_t>{5, 6});
}

// --------------------------------------------------------------------------------- formats ----

// What a dataset on disk gives for its second sample.
Made made_of(const sources::SampleIndex& index, const std::filesystem::path& root,
             const std::string& fields) {
  const std::string record = bytes_of(index, root, 1);
  const auto bytes = std::as_bytes(std::span(record));
  return {
      pipeline(fields,
               "[{step: decode}, {step: random_resized_crop, size: 20}, {step: horizontal_flip}]",
               index),
      {bytes.begin(), bytes.end()},
      3};
}

TEST_CASE("tars, TFRecords and packed records give the same fields") {
  const std::vector<float> left = {4, 0, 30}, upper = {2, 5, 6}, right = {22, 40, 31},
                           lower = {20, 30, 6.5f};
  const std::vector<std::int64_t> labels = {3, 1, 2};
  const std::string mask =
      text_of(encode_png(make_pixels(40, 30, 1, 2), 40, 30, PNG_COLOR_TYPE_GRAY));
  std::vector<float> boxes;
  for (std::size_t i = 0; i < 3; ++i)
    boxes.insert(boxes.end(), {left[i], upper[i], right[i], lower[i]});

  Folder tars, records, packed;
  std::string tar, tfrecords;
  for (const std::size_t rows : {std::size_t{1}, std::size_t{3}}) {
    const auto few = [&](auto values) {
      values.resize(rows * values.size() / 3);
      return values;
    };
    const std::string key = fmt::format("s{}", rows);
    tar += tar_member(key + ".png", picture()) + tar_member(key + ".mask.png", mask) +
           tar_member(key + ".boxes.npy", boxes_npy(few(boxes))) +
           tar_member(key + ".labels.npy",
                      test::fields_test::npy("<i8", fmt::format("({},)", rows), few(labels))) +
           tar_member(key + ".txt", "a caption");
    tfrecords += tfrecord(example(
        bytes_feature("image/encoded", {picture()}) + bytes_feature("image/mask", {mask}) +
        float_feature("bbox/xmin", few(left)) + float_feature("bbox/ymin", few(upper)) +
        float_feature("bbox/xmax", few(right), false) + float_feature("bbox/ymax", few(lower)) +
        int_feature("bbox/label", few(labels)) + bytes_feature("image/caption", {"a caption"})));
  }
  tars.write("a.tar", tar + tar_end());
  records.write("a.tfrecord", tfrecords);
  const std::string of_tar =
      std::string(kPicture) +
      "  - {field: mask, kind: mask, from: mask.png}\n"
      "  - {field: boxes, kind: boxes, from: boxes.npy, sanitise: {}}\n"
      "  - {field: classes, kind: numbers, from: labels.npy, type: i64, rows_of: boxes}\n"
      "  - {field: caption, kind: bytes, from: txt}\n";
  const std::string of_record =
      std::string(kPicture) +
      "  - {field: mask, kind: mask, from: image/mask}\n"
      "  - {field: boxes, kind: boxes, sanitise: {}, from: [bbox/xmin, bbox/ymin, bbox/xmax, "
      "bbox/ymax]}\n"
      "  - {field: classes, kind: numbers, from: bbox/label, rows_of: boxes}\n"
      "  - {field: caption, kind: bytes, from: image/caption}\n";

  const auto tar_index = sources::open_index(source(tars.path()));
  const auto record_index = sources::open_index(source(records.path()));
  std::string only;
  const protocol::Descriptor opened = sources::open_root(records.path(), only);
  sources::pack_dataset(*record_index, opened.get(), {packed.path(), "x"}, {}, nullptr, nullptr);
  const auto packed_index = sources::open_index(source(packed.path()));

  Made from_tar = made_of(*tar_index, tars.path(), of_tar);
  Made from_record = made_of(*record_index, records.path(), of_record);
  Made from_packed = made_of(*packed_index, packed.path(), of_record);
  REQUIRE_MESSAGE(from_tar.result == Prepared::done, from_tar.problem);
  CHECK(from_tar.field<float>("boxes").size() == 8);  // the flat one has left
  CHECK(from_tar.field<std::int64_t>("classes") == std::vector<std::int64_t>{3, 1});
  for (Made* other : {&from_record, &from_packed}) {
    REQUIRE_MESSAGE(other->result == Prepared::done, other->problem);
    for (const std::string_view field : {"image", "mask", "boxes", "classes", "caption"})
      CHECK(other->field<std::byte>(field) == from_tar.field<std::byte>(field));
  }
  CHECK(from_record.spec().find("boxes")->shape == std::vector<std::uint64_t>{3, 4});
  CHECK(refusal(
            std::string(kPicture) + "  - {field: c, kind: numbers, from: bbox/label, type: i32}\n",
            kDecode, *record_index)
            .find("field 'c' is i32, and 'bbox/label' holds i64; write i64") != std::string::npos);
  CHECK(refusal(std::string(kPicture) + "  - {field: c, kind: mask, from: bbox/label}\n", kDecode,
                *record_index)
            .find("field 'c' is read from bytes, and 'bbox/label' holds i64") != std::string::npos);
  CHECK(
      refusal(std::string(kPicture) + "  - {field: b, kind: boxes, from: [bbox/xmin, bbox/ymin]}\n",
              kDecode, *record_index)
          .find("2 parts for field 'b', which is of kind boxes; write one, or 4") !=
      std::string::npos);
}

TEST_CASE("columns of boxes have as many rows") {
  const std::string fields = std::string(kPicture) +
                             "  - {field: boxes, kind: boxes, from: [a, b, c, d]}\n"
                             "  - {field: points, kind: points, from: [a, b], optional: true}\n";
  const auto made = [&](const std::vector<float>& third, bool has_fourth = true) {
    const std::string record =
        tfrecord(example(bytes_feature("image", {picture()}) + float_feature("a", {1, 2}) +
                         float_feature("b", {3, 4}) + float_feature("c", third) +
                         (has_fourth ? float_feature("d", {7, 8}) : std::string())));
    const auto bytes = std::as_bytes(std::span(record));
    return Made(pipeline(fields, kDecode, unknown_parts(sources::RecordKind::example)),
                {bytes.begin(), bytes.end()});
  };
  Made good = made({5, 6});
  REQUIRE_MESSAGE(good.result == Prepared::done, good.problem);
  CHECK(good.field<float>("boxes") == std::vector<float>{1, 3, 5, 7, 2, 4, 6, 8});
  CHECK(good.field<float>("points") == std::vector<float>{1, 3, 2, 4});
  CHECK(made({5}).problem == "field 'boxes': 'c' has 1 numbers, and 'a' 2");
  CHECK(made({5, 6}, false).problem == "it has no 'd', of which field 'boxes' is");
}

// ------------------------------------------------------------------------------- hostile ----

TEST_CASE("a sample that is wrong in any field is corrupt, and says why") {
  const auto problem = [](std::string_view fields, const Members& members) {
    Made made(std::string(kPicture) + std::string(fields), kDecode, members);
    return made.result == Prepared::corrupt ? made.problem : "it was prepared";
  };
  const std::string boxes = "  - {field: boxes, kind: boxes, from: b.npy}\n";
  const auto of_boxes = [&](const std::string& npy) {
    return problem(boxes, {{"png", picture()}, {"b.npy", npy}});
  };
  const float nan = std::nanf(""), infinite = std::numeric_limits<float>::infinity();
  CHECK(problem(boxes, {{"png", picture()}}) == "it has no 'b.npy', of which field 'boxes' is");
  CHECK(problem(boxes, {{"b.npy", boxes_npy({1, 2, 3, 4})}}) == "it holds no picture");
  CHECK(of_boxes(boxes_npy({1, 2, 3, 4, 1, nan, 3, 4})) ==
        "field 'boxes': row 1 has the coordinate nan");
  CHECK(of_boxes(boxes_npy({1, infinite, 3, 4})) == "field 'boxes': row 0 has the coordinate inf");
  CHECK(of_boxes(npy<float>("<f4", "(1, 5)", {1, 2, 3, 4, 5})) ==
        "field 'boxes': its rows have 5 numbers, and those of the field 4");
  CHECK(of_boxes(npy<float>("<f4", "(4, 5)", std::vector<float>(20))) ==
        "field 'boxes': its rows have 5 numbers, and those of the field 4");
  CHECK(of_boxes(npy<float>("<f4", "(1000000000000, 4)", {1, 2, 3, 4})) ==
        "field 'boxes': it has not as many numbers as its header says");
  CHECK(of_boxes("no array at all").starts_with("field 'boxes': it is not a NumPy file"));
  CHECK(of_boxes("").starts_with("field 'boxes': it is not a NumPy file"));
  CHECK(of_boxes(npy<char>("|S4", "(1,)", {'a', 'b', 'c', 'd'}))
            .starts_with("field 'boxes': a batch cannot have its type |S4"));

  const std::string json =
      "  - {field: n, kind: numbers, from: json, key: n, type: u8, ragged: true}\n";
  const auto of_json = [&](const std::string& text) {
    return problem(json, {{"png", picture()}, {"json", text}});
  };
  CHECK(of_json(R"({"n": [1, 256]})") == "field 'n': 256 is no u8");
  CHECK(of_json(R"({"n": [1, -1]})") == "field 'n': -1 is no u8");
  CHECK(of_json(R"({"n": [1.5]})") == "field 'n': 1.5 is no u8");
  CHECK(of_json(R"({"n": ["1"]})") == "field 'n': a text stands there, and not a number");
  CHECK(of_json(R"({"n": null})") == "field 'n': a null stands there");
  CHECK(of_json(R"({"n": [1)") == "field 'n': it is no JSON from byte 9 on");
  CHECK(of_json(R"({"n": 1} x)").starts_with("field 'n': it is no JSON from byte"));
  CHECK(of_json("{\"n\": \"\xff\"}").starts_with("field 'n': it is no JSON from byte"));
  CHECK(of_json(std::string(100'000, '[')) == "field 'n': it is nested too deep");
  std::string deep;
  for (int i = 0; i < 10'000; ++i) deep += "{\"n\":";
  CHECK(of_json(deep) == "field 'n': it is nested too deep");

  CHECK(problem("  - {field: boxes, kind: boxes, from: json}\n",
                {{"png", picture()}, {"json", "[[1, 2, 3], [4, 5, 6, 7, 8]]"}}) ==
        "field 'boxes': a list has 3 numbers, and a row 4");

  const std::string mask = "  - {field: mask, kind: mask, from: mask.png}\n";
  const auto of_mask = [&](const std::string& bytes) {
    return problem(mask, {{"png", picture()}, {"mask.png", bytes}});
  };
  CHECK(of_mask("x") == "field 'mask': a mask is a PNG or a NumPy file, and it is neither");
  CHECK(of_mask(picture(40, 31)) == "field 'mask': it has 40 x 31 pixels, and its picture 40 x 30");
  CHECK(of_mask(picture().substr(0, 100)) == "field 'mask': the data ends early");
  CHECK(of_mask(text_of(encode_png(make_pixels(40, 30, 6, 1), 40, 30, PNG_COLOR_TYPE_RGB, 16))) ==
        "field 'mask': values of three times 16 bits are too large");

  const std::string text = "  - {field: text, kind: bytes, from: txt, most: 4}\n";
  CHECK(problem(text, {{"png", picture()}, {"txt", "12345"}}) ==
        "field 'text' has 5 rows of 1 bytes, and may have 4");
  const std::string key = "  - {field: text, kind: bytes, from: json, key: a.b}\n";
  CHECK(problem(key, {{"png", picture()}, {"json", R"({"a": {"c": "x"}})"}}) ==
        "field 'text': it has no text 'a.b'");
  CHECK(problem(key, {{"png", picture()}, {"json", R"({"a": {"b": 3}})"}}) ==
        "field 'text': a number stands there, and not a text");
}

TEST_CASE("members of a sample may stand in any order, and others among them") {
  const Members forth = {{"png", picture()},
                         {"x.unknown", "?"},
                         {"boxes.npy", boxes_npy({1, 2, 3, 4})},
                         {"txt", "text"}};
  const Members back(forth.rbegin(), forth.rend());
  Made one(kBoxes, kDecode, forth), other(kBoxes, kDecode, back);
  REQUIRE(one.result == Prepared::done);
  REQUIRE(other.result == Prepared::done);
  CHECK(one.field<std::uint8_t>("image") == other.field<std::uint8_t>("image"));
  CHECK(one.field<float>("boxes") == other.field<float>("boxes"));
}

TEST_CASE("damaged samples of several fields are corrupt or prepared, and nothing else") {
  const std::string fields =
      std::string(kBoxes) +
      "  - {field: mask, kind: mask, from: mask.png}\n"
      "  - {field: points, kind: points, from: json, key: p}\n"
      "  - {field: labels, kind: numbers, from: json, key: l, type: i64, rows_of: boxes}\n"
      "  - {field: words, kind: bytes, from: txt}\n";
  const std::vector<std::byte> good = tar_sample(
      {{"png", picture(12, 9)},
       {"mask.png", text_of(encode_png(make_pixels(12, 9, 1, 1), 12, 9, PNG_COLOR_TYPE_GRAY))},
       {"boxes.npy", boxes_npy({1, 2, 3, 4, 5, 6, 7, 8})},
       {"json", R"({"p": [[1, 2], [3.5, 4]], "l": [7, 8]})"},
       {"txt", "words"}});
  const auto compiled = pipeline(
      fields,
      "[{step: decode}, {step: random_rotation, degrees: 50}, {step: resize, size: [8, 8]}]");
  const auto preparer = prepare::make_preparer();
  Slot slot(*compiled);
  REQUIRE(test::prepare(*preparer, *compiled, {.bytes = good}, slot) == Prepared::done);
  Random random(11);
  std::size_t corrupt = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<std::byte> damaged = good;
    for (std::uint64_t n = 1 + random.below(3); n > 0; --n)
      damaged[random.below(damaged.size())] = static_cast<std::byte>(random.below(256));
    if (random.below(4) == 0) damaged.resize(random.below(damaged.size()));
    const Prepared made =
        test::prepare(*preparer, *compiled, {.bytes = damaged, .draw_key = random.below(9)}, slot);
    CHECK(made != Prepared::failed);
    corrupt += made == Prepared::corrupt;
  }
  CHECK(corrupt > 1000);
  REQUIRE(test::prepare(*preparer, *compiled, {.bytes = good}, slot) == Prepared::done);
}

TEST_CASE("what a sample of several fields takes is bounded") {
  const auto budget = std::make_shared<memory::ScratchBudget>(
      memory::ScratchLimits{.each = 1 << 20, .shared = 3 << 20});
  const auto preparer = prepare::make_preparer(budget);
  const auto compiled = pipeline(std::string(kPicture) +
                                     "  - {field: mask, kind: mask, from: mask.png}\n"
                                     "  - {field: n, kind: numbers, from: json, key: n, type: f32, "
                                     "ragged: true, most: 10000000}\n",
                                 kDecode);
  Slot slot(*compiled);
  const auto prepared = [&](const std::string& json) {
    return test::prepare(
        *preparer, *compiled,
        {.bytes = tar_sample({{"png", picture()},
                              {"mask.png", text_of(encode_png(make_pixels(40, 30, 1, 2), 40, 30,
                                                              PNG_COLOR_TYPE_GRAY))},
                              {"json", json}})},
        slot);
  };
  CHECK(prepared(R"({"n": [1]})") == Prepared::done);
  CHECK(prepared(R"({"n": [1], "x": ")" + std::string(2 << 20, ' ') + "\"}") == Prepared::corrupt);
  CHECK(preparer->problem().find("of which a sample may have") != std::string_view::npos);
  CHECK(prepared(R"({"n": [1]})") == Prepared::done);
}

// ----------------------------------------------------------------------------- compiling ----

TEST_CASE("what cannot be is refused when the pipeline is compiled, by field and step") {
  const FakeDataset dataset = known_parts();
  const auto says = [&](std::string_view fields, std::string_view steps,
                        std::string_view expected) {
    const std::string text = refusal(fields, steps, dataset);
    CHECK_MESSAGE(text.find(expected) != std::string::npos, text);
  };
  const std::string image = std::string(kPicture);
  says("  - {field: mask, kind: mask, from: seg.png}\n" + image, kDecode,
       "test.yaml:3: key 'fields.0.from': dataset 'made-up' has no field 'seg.png'; its samples "
       "have "
       "'boxes.json', 'boxes.npy', 'jpg', 'mask.png', 'txt'");
  says("  - {field: mask, kind: mask, from: mask.png}\n", "[]",
       "masks, boxes and points go along with a picture, and there is none");
  says(image, "[]", "field 'image' is a picture, and none is decoded");
  says("  - {field: text, kind: bytes, from: txt}\n", kDecode, "no field is a picture");
  says(image + "  - {field: two, kind: picture, from: jpg}\n", kDecode,
       "field 'two' is a second picture");
  says(image + "  - {field: image, kind: bytes, from: txt}\n", kDecode,
       "two fields are called 'image'");
  says(image +
           "  - {field: mask, kind: mask, from: mask.png, steps: [{step: normalise, mean: [0, 0, "
           "0], std: [1, 1, 1]}]}\n",
       kDecode,
       "'normalise' does not work on field 'mask', which is of kind mask; write cast there");
  says(image + "  - {field: mask, kind: mask, from: mask.png, steps: [{step: cast, to: f16}]}\n",
       kDecode, "field 'mask' is a mask, which is never f16; write u8, i8,");
  says(image + "  - {field: mask, kind: mask, from: mask.png, fill: 256}\n", kDecode,
       "256 is no u8, as field 'mask' is; write a smaller number, or steps: [{step: cast, to: "
       "i32}]");
  says(image + "  - {field: boxes, kind: boxes, from: boxes.npy, steps: [{step: cast, to: i32}]}\n",
       kDecode, "not all values of f32, as field 'boxes' has it, are values of i32");
  says(image + "  - {field: boxes, kind: boxes, from: txt}\n", kDecode,
       "field 'boxes' is numbers, and nothing says how 'txt' holds them; write stored: npy");
  says(image + "  - {field: n, kind: numbers, from: boxes.npy}\n", kDecode,
       "field 'n' needs a type; write one, as i64 or f32");
  says(image + "  - {field: n, kind: numbers, from: boxes.npy, type: i64, rows_of: boxes}\n",
       kDecode, "the rows of field 'n' belong to 'boxes', which is no field of boxes");
  says(image + "  - {field: n, kind: numbers, from: boxes.npy, type: i64, fill: 3}\n", kDecode,
       "field 'n' is of kind numbers, which has no 'fill'; leave it out; it is for mask");
  says(image + "  - {field: n, kind: numbers, from: boxes.npy, type: i64, optional: true}\n",
       kDecode, "field 'n' has as many rows in each sample");
  says(image + "  - {field: text, kind: bytes, from: txt, key: a, stored: plain}\n", kDecode,
       "'txt' is not read as JSON");
  says(image + "  - {field: text, kind: bites}\n", kDecode, "unknown value 'bites'");
  says(image + "  - {field: txt, kind: bytes, form: json}\n", kDecode, "did you mean 'format'?");
  // A wrong key is named at first, whatever else is wrong.
  says("  - {fields: text, kind: bytes}\n", kDecode,
       "key 'fields.0.fields': unknown key; did you mean 'field'?");
  says(image + "  - {field: text, kind: bites, form: json}\n", kDecode, "did you mean 'format'?");
  says(image + "  - {field: mask, kind: mask, form: seg.png}\n", kDecode, "did you mean 'format'?");
  says(image, "[{step: decode}]", "pictures would have different sizes");
  says("  - {field: text, kind: bytes, from: txt}\n", "[{step: cast, to: i64}]",
       "no picture is decoded, and each of 'fields' has steps of its own");
  says("[]", kDecode, "it is empty");
}

TEST_CASE("fields have the type and shape that their kinds and steps say") {
  const auto compiled = pipeline(
      "  - {field: boxes, kind: boxes, from: boxes.json, most: 20}\n"
      "  - {field: picture, kind: picture}\n"
      "  - {field: mask, kind: mask, from: mask.png, steps: [{step: cast, to: i64}]}\n"
      "  - {field: joints, kind: points, from: boxes.npy, shape: [17, 3], ragged: false, steps: "
      "[{step: cast, to: f64}]}\n"
      "  - {field: caption, kind: bytes, from: txt}\n"
      "  - {field: all, kind: boxes, from: boxes.json}\n",
      "[{step: decode}, {step: resize, size: [6, 7]}, {step: layout, order: nchw}]", known_parts());
  using batch::ElementType;
  CHECK(compiled->spec() == batch::BatchSpec{{{"boxes", ElementType::f32, {20, 4}, true},
                                              {"picture", ElementType::u8, {3, 6, 7}, false},
                                              {"mask", ElementType::i64, {6, 7}, false},
                                              {"joints", ElementType::f64, {17, 3}, false},
                                              {"caption", ElementType::u8, {1000}, true},
                                              {"all", ElementType::f32, {125, 4}, true}}});
  // What is kept decoded of a sample with several fields is more than its picture.
  const auto alone = pipeline(kPicture, kDecode, known_parts());
  CHECK(compiled->info().decodes());
  CHECK(compiled->info().prefix_hash != alone->info().prefix_hash);
}

TEST_CASE("whatever a field says is part of the pipeline's hash") {
  const auto hash = [](std::string_view more) {
    return pipeline(std::string(kPicture) +
                        fmt::format("  - {{field: boxes, kind: boxes, from: boxes.npy{}}}\n", more),
                    kDecode)
        ->info()
        .hash;
  };
  const std::vector<std::string> all = {"",
                                        ", format: xywh",
                                        ", shares: true",
                                        ", sanitise: {}",
                                        ", sanitise: {side: 2}",
                                        ", most: 5",
                                        ", optional: true",
                                        ", steps: [{step: cast, to: f64}]"};
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t k = 0; k < all.size(); ++k) CHECK((hash(all[i]) == hash(all[k])) == (i == k));
}

}  // namespace
}  // namespace batchflow::test::fields_test
