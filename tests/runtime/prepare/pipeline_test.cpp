#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>

#include "programs/input/yaml.h"
#include "runtime/prepare/numbers.h"
#include "tests/config_error.h"
#include "tests/runtime/prepare/harness.h"
#include "tests/runtime/sources/tar_bytes.h"
#include "tests/source_dir.h"

namespace batchflow::test::pipeline_test {
namespace {

using test::compile;
using test::FakeDataset;
using test::Slot;

FakeDataset rows(batch::ElementType type, std::vector<std::uint64_t> shape, bool labelled = false) {
  batch::BatchSpec spec{{{"tokens", type, std::move(shape), false}}};
  const Bytes bytes = spec.fields[0].row_bytes();
  return FakeDataset(sources::RecordKind::rows, std::move(spec), {bytes, bytes}, labelled);
}

std::string error_of(std::string_view steps,
                     const sources::SampleIndex& dataset = test::files_dataset()) {
  return config_error([&] { compile(steps, dataset); });
}

TEST_CASE("what cannot be carried out is refused, with its place and what to write") {
  const std::string decode = "- {step: decode}\n", crop = "- {step: centre_crop, size: 8}\n";
  CHECK(error_of("- {step: decod}\n") ==
        "test.yaml:3: key 'steps.0.step': no step 'decod'; did you mean 'decode'?");
  CHECK(error_of("- {size: 3}\n") ==
        "test.yaml:3: key 'steps.0.step': is missing; write what is to be done, as {step: decode}");
  CHECK(error_of(crop) ==
        "test.yaml:3: key 'steps.0.step': 'centre_crop' works on pictures, and there is none yet; "
        "write {step: decode} before it");
  CHECK(error_of(decode + "- {step: layout, order: nchw}\n" + crop)
            .find("test.yaml:5: key 'steps.2.step': 'centre_crop' cannot come after 'layout'") ==
        0);
  CHECK(error_of(decode + decode).find("key 'steps.1.step': 'decode' stands twice") !=
        std::string::npos);
  CHECK(error_of(decode).find("pictures would have different sizes, and a batch one; add ") !=
        std::string::npos);
  CHECK(error_of(decode + "- {step: resize, size: 9}\n").find("different sizes") !=
        std::string::npos);
  CHECK(error_of(decode + "- {step: centre_crop, sise: 9}\n").find("'steps.1.size': is missing") !=
        std::string::npos);
  CHECK(error_of(decode + "- {step: centre_crop, size: 9, scale: 2}\n").find("unknown key") !=
        std::string::npos);
  for (const char* size : {"0", "-3", "x", "[1, 2, 3]", "70000", "[]", "{a: 1}"})
    CHECK_MESSAGE(!error_of(decode + "- {step: centre_crop, size: " + size + "}\n").empty(), size);
  for (const char* wrong :
       {"scale: [0.5, 0.1]", "scale: [0, 1]", "scale: 1", "ratio: [1, nan]", "scale: [0.1, 1.1]"})
    CHECK_MESSAGE(
        !error_of(decode + "- {step: random_resized_crop, size: 8, " + wrong + "}\n").empty(),
        wrong);
  CHECK(error_of(decode + "- {step: horizontal_flip, probability: 1.5}\n" + crop)
            .find("1.5 is out of bounds") != std::string::npos);
  CHECK(error_of(decode + "- {step: resize, size: 9, interpolation: lanczos}\n" + crop) ==
        "test.yaml:4: key 'steps.1.interpolation': unknown value 'lanczos'; write one of bilinear, "
        "bicubic, nearest");
  for (const char* wrong : {"pad",
                            "pad, padding: -1",
                            "pad, padding: [1, 2, 3]",
                            "pad, padding: 1.5",
                            "pad, padding: 2, fill: 300",
                            "pad, padding: 2, fill: [1, 2]",
                            "pad, padding: 70000",
                            "pad, padding: 2, padding_mode: edge, fill: 3",
                            "pad, padding: 2, padding_mode: wrap",
                            "random_crop",
                            "random_crop, size: 8, pad_if_needed: maybe",
                            "vertical_flip, probability: 2",
                            "random_rotation",
                            "random_rotation, degrees: 400",
                            "random_rotation, degrees: [3, 1]",
                            "random_rotation, degrees: 3, interpolation: lanczos",
                            "random_affine, degrees: [1, 2, 3]",
                            "random_affine, degrees: 0, translate: [0, 2]",
                            "random_affine, degrees: 0, scale: [0, 1]",
                            "random_affine, degrees: 0, shear: 90",
                            "random_affine, degrees: 0, shear: [1, 0, 0, 0]",
                            "random_affine, degrees: 0, expand: true",
                            "greyscale, probability: 1",
                            "gaussian_blur",
                            "gaussian_blur, kernel_size: 4",
                            "gaussian_blur, kernel_size: 65",
                            "gaussian_blur, kernel_size: 3, sigma: 0",
                            "gaussian_blur, kernel_size: [1, 3, 5]",
                            "sharpness",
                            "sharpness, factor: -1",
                            "posterize",
                            "posterize, bits: 9",
                            "solarize",
                            "solarize, threshold: 257",
                            "rand_augment, magnitude: 31",
                            "rand_augment, operations: 0",
                            "trivial_augment_wide, bins: 1",
                            "auto_augment, policy: mnist",
                            "random_apply",
                            "random_apply, steps: []",
                            "random_apply, steps: [{step: decode}]",
                            "random_apply, steps: [{step: cast, to: f32}]",
                            "random_apply, steps: [{plugin: x.so}]",
                            "random_choice, steps: [{step: greyscale}], probabilities: [1, 2]",
                            "random_choice, steps: [{step: greyscale}], probabilities: [0]",
                            "random_choice, steps: [{step: greyscale}], probabilities: [-1]"}) {
    const std::string error = error_of(decode + "- {step: " + wrong + "}\n" + crop);
    CHECK_MESSAGE(error.find("test.yaml:4: key 'steps.1.") == 0, wrong, ": ", error);
  }
  CHECK(error_of(decode + "- {step: random_apply, steps: [{step: greyscal}]}\n" + crop) ==
        "test.yaml:4: key 'steps.1.steps.0.step': no step 'greyscal'; did you mean 'greyscale'?");
  CHECK(error_of(decode + "- {step: random_choice, steps: [{step: layout, order: nchw}]}\n" + crop)
            .find("steps.1.steps.0.step': 'layout' stands inside of another step") !=
        std::string::npos);
  for (const char* wrong : {"probability: 2", "scale: [0.3, 0.2]", "ratio: [0, 1]", "value: red",
                            "value: [1, 2]", "value: 0.5", "value: 256", "value: random"})
    CHECK_MESSAGE(error_of(decode + crop + "- {step: random_erasing, " + wrong + "}\n")
                          .find("test.yaml:5: key 'steps.2.") == 0,
                  wrong);
  CHECK(error_of(decode + "- {step: random_erasing}\n" + crop)
            .find("'centre_crop' cannot come after 'random_erasing'") != std::string::npos);
  CHECK(error_of(decode + "- {step: colour_jitter, hue: 0.6}\n" + crop).find("steps.1.hue") !=
        std::string::npos);
  CHECK(error_of(decode + crop + "- {step: normalise, mean: [0, 0], std: [1, 1, 1]}\n")
            .find("steps.2.mean': 2 values") != std::string::npos);
  CHECK(error_of(decode + crop + "- {step: normalise, mean: [0, 0, 0], std: [1, 0, 1]}\n")
            .find("steps.2.std': '0' is not such a number") != std::string::npos);
  CHECK(error_of(decode + crop + "- {step: cast, to: i64}\n").find("write u8, f16, bf16 or f32") !=
        std::string::npos);
  CHECK(
      error_of(decode + crop + "- {step: tokens, length: 3}\n").find("does not work on pictures") !=
      std::string::npos);
  CHECK(error_of(decode, rows(batch::ElementType::u16, {8})).find("holds numbers") !=
        std::string::npos);
  CHECK(error_of("- {step: cast, to: u8}\n", rows(batch::ElementType::u16, {8}))
            .find("write a wider type") != std::string::npos);
  CHECK(error_of("- {step: reshape, shape: [3, 3]}\n", rows(batch::ElementType::u16, {8})) ==
        "test.yaml:3: key 'steps.0.shape': field 'tokens' has 8 numbers a sample; write a shape of "
        "as many");
  CHECK(error_of("- {step: tokens, length: 9, fit: pack}\n", rows(batch::ElementType::u16, {8}))
            .find("steps.0.length") != std::string::npos);
  CHECK(
      error_of("- {step: tokens, length: 9, pad_with: 70000}\n", rows(batch::ElementType::u16, {8}))
          .find("70000 is no u16") != std::string::npos);
}

TEST_CASE("hashes name what decides the bytes, and nothing else") {
  const std::string decode = "- {step: decode}\n";
  const std::string rest = "- {step: random_resized_crop, size: 32}\n- {step: horizontal_flip}\n";
  const engine::PipelineInfo base = compile(decode + rest)->info();
  CHECK(base.has_random);
  CHECK(base.hash == compile("- {step: decode, pixels_most: 67108864}\n" + rest)->info().hash);
  const auto renamed =
      test::compile(input::parse_yaml("name: other\nsteps:\n" + decode + rest, "other.yaml"),
                    test::files_dataset());
  CHECK(renamed->info().hash == base.hash);
  CHECK(renamed->name() == "other");
  const engine::PipelineInfo larger =
      compile(decode + "- {step: random_resized_crop, size: 33}\n- {step: horizontal_flip}\n")
          ->info();
  CHECK(larger.hash != base.hash);
  CHECK(larger.prefix_hash == base.prefix_hash);  // both begin with the decoded picture
  const engine::PipelineInfo resized =
      compile(decode + "- {step: resize, size: 64}\n" + rest)->info();
  CHECK(resized.prefix_hash != base.prefix_hash);
  const auto value =
      compile(decode + "- {step: resize, size: [10, 20]}\n- {step: layout, order: nchw}\n");
  CHECK_FALSE(value->info().has_random);
  CHECK(value->info().decoded_bytes == 16 + 10 * 20 * 3);
  CHECK(value->info().prepared_bytes == 10 * 20 * 3 + 8);
  CHECK(value->spec().fields.at(0) ==
        batch::Field{"image", batch::ElementType::u8, {3, 10, 20}, false});
  CHECK(value->describe().find("\nresize/1 size=10x20\nlayout/1 order=nchw") != std::string::npos);
}

// Pipelines that users have keep the hashes that they had in 0.1: positions and caches name them.
TEST_CASE("the text of a step stays what it was") {
  const auto text_of = [](const std::string& steps) {
    const std::string text = compile(steps)->describe();
    return text.substr(text.find('\n') + 1);  // after decode, which names its library
  };
  CHECK(text_of("- {step: decode}\n- {step: resize, size: 256}\n- {step: centre_crop, size: 224}\n"
                "- {step: normalise, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}\n"
                "- {step: cast, to: f16}\n- {step: layout, order: nchw}\n") ==
        "resize/1 shorter=256\ncentre_crop/1 size=224x224\n"
        "normalise/1 mean=0.485,0.456,0.406 std=0.229,0.224,0.225\ncast/1 to=f16\n"
        "layout/1 order=nchw");
  CHECK(
      text_of("- {step: decode}\n- {step: random_resized_crop, size: 224}\n"
              "- {step: horizontal_flip}\n- {step: colour_jitter, hue: 0.1, contrast: [1, 2]}\n") ==
      "random_resized_crop/1 size=224x224 scale=0.08..1 ratio=0.75..1.3333333333333333\n"
      "horizontal_flip/1 probability=0.5\n"
      "colour_jitter/1 brightness=1..1 contrast=1..2 saturation=1..1 hue=-0.1..0.1");
  CHECK(text_of("- {step: decode}\n- {step: random_crop, size: 8}\n- {step: random_apply, steps: "
                "[{step: vertical_flip}, {step: greyscale}]}\n") ==
        "random_crop/1 size=8x8 padding=0,0,0,0 pad_if_needed=false padding_mode=constant "
        "fill=0,0,0\nrandom_apply/1 probability=0.5 {vertical_flip/1 probability=0.5} "
        "{greyscale/1}");
}

TEST_CASE("steps inside of others count, and may go three deep") {
  const std::string decode = "- {step: decode}\n- {step: centre_crop, size: 8}\n";
  const auto nested = [](int depth) {
    std::string text = "{step: greyscale}";
    for (int i = 0; i < depth; ++i) text = "{step: random_apply, steps: [" + text + "]}";
    return "- " + text + "\n";
  };
  CHECK(error_of(decode + nested(3)).empty());
  CHECK(error_of(decode + nested(4)).find("write at most 3 inside of each other") !=
        std::string::npos);
  const auto with = [](int count) {
    std::string list;
    for (int i = 0; i < count; ++i) list += ", {step: greyscale}";
    return "- {step: random_apply, steps: [" + list.substr(2) + "]}\n";
  };
  CHECK(
      error_of(decode + "- {step: rand_augment, operations: 16}\n" + with(46)).find("at most 64") !=
      std::string::npos);
  CHECK(error_of(decode + with(61)).empty());
  CHECK(error_of(decode + with(62)).find("write at most 64 steps") != std::string::npos);
}

TEST_CASE("pictures have one size where all that may be done to them gives it") {
  const std::string decode = "- {step: decode}\n", eight = "{step: centre_crop, size: 8}",
                    nine = "{step: centre_crop, size: 9}", grey = "{step: greyscale}";
  const auto is_refused = [&](const std::string& steps) {
    return error_of(decode + steps).find("different sizes") != std::string::npos;
  };
  CHECK(is_refused("- {step: random_apply, steps: [" + eight + "]}\n"));
  CHECK_FALSE(is_refused("- {step: random_apply, probability: 1, steps: [" + eight + "]}\n"));
  CHECK(is_refused("- " + eight + "\n- {step: random_apply, steps: [" + nine + "]}\n"));
  CHECK_FALSE(is_refused("- " + eight + "\n- {step: random_apply, steps: [" + nine + ", " + eight +
                         "]}\n"));
  CHECK(is_refused("- {step: random_choice, steps: [" + eight + ", " + nine + "]}\n"));
  CHECK(is_refused("- {step: random_choice, steps: [" + eight + ", " + grey + "]}\n"));
  CHECK_FALSE(is_refused("- " + eight + "\n- {step: random_choice, steps: [" + eight + ", " + grey +
                         "]}\n"));
  const auto shape = compile(decode + "- " + eight + "\n- {step: pad, padding: [1, 2, 3, 4]}\n")
                         ->spec()
                         .fields.at(0)
                         .shape;
  CHECK(shape == std::vector<std::uint64_t>{14, 12, 3});
}

std::vector<std::byte> words(std::vector<std::uint16_t> values) {
  std::vector<std::byte> bytes(values.size() * 2);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<T> values(const std::vector<std::byte>& bytes) {
  std::vector<T> all(bytes.size() / sizeof(T));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

TEST_CASE("tokens: cut, padded, packed, cast") {
  const auto preparer = prepare::make_preparer();
  const auto sample = words({1, 2, 3, 65535, 5, 6, 7});
  const auto run = [&](std::string_view steps, const sources::SampleIndex& dataset) {
    const auto pipeline = compile(steps, dataset);
    Slot slot(*pipeline);
    REQUIRE(test::prepare(*preparer, *pipeline, {sample}, slot) == prepare::Prepared::done);
    return values<std::int64_t>(slot.field(0));
  };
  const auto seven = rows(batch::ElementType::u16, {7});
  using Values = std::vector<std::int64_t>;
  CHECK(run("- {step: tokens, length: 4}\n- {step: cast, to: i64}\n", seven) ==
        Values{1, 2, 3, 65535});
  CHECK(run("- {step: tokens, length: 9, pad_with: 8}\n- {step: cast, to: i64}\n", seven) ==
        Values{1, 2, 3, 65535, 5, 6, 7, 8, 8});
  CHECK(run("- {step: tokens, length: 3, fit: pack}\n- {step: cast, to: i64}\n", seven) ==
        Values{1, 2, 3, 65535, 5, 6});
  const auto packed = compile("- {step: tokens, length: 3, fit: pack}\n", seven);
  CHECK(packed->spec().fields.at(0) ==
        batch::Field{"tokens", batch::ElementType::u16, {2, 3}, false});
  CHECK_FALSE(packed->info().decodes());
  CHECK(compile("- {step: reshape, shape: [7, 1]}\n", seven)->spec().fields.at(0).shape ==
        std::vector<std::uint64_t>{7, 1});
  // Bytes that are not as many as the dataset says are a corrupt sample.
  const auto plain = compile("[]", seven);
  Slot slot(*plain);
  CHECK(test::prepare(*preparer, *plain, {std::span(sample).first(12)}, slot) ==
        prepare::Prepared::corrupt);
  CHECK(preparer->problem() == "a row has not the size that the index says");
}

TEST_CASE("files without a step are their bytes, end to end") {
  const FakeDataset dataset(sources::RecordKind::whole, {}, {5, 3}, false);
  const auto pipeline = compile("[]", dataset);
  REQUIRE(pipeline->spec().fields ==
          std::vector<batch::Field>{{"bytes", batch::ElementType::u8, {5}, true}});
  const auto preparer = prepare::make_preparer();
  Slot slot(*pipeline, 2);
  const std::vector<std::byte> five(5, std::byte{5}), three(3, std::byte{3});
  CHECK(test::prepare(*preparer, *pipeline, {five}, slot) == prepare::Prepared::done);
  CHECK(test::prepare(*preparer, *pipeline, {.bytes = three, .place = 1}, slot) ==
        prepare::Prepared::done);
  const std::byte* bytes = slot.memory().data();
  CHECK(std::vector(bytes, bytes + 8) == std::vector<std::byte>{five[0], five[0], five[0], five[0],
                                                                five[0], three[0], three[0],
                                                                three[0]});
  Slot other(*pipeline);
  const std::vector<std::byte> six(6);
  CHECK(test::prepare(*preparer, *pipeline, {six}, other) == prepare::Prepared::corrupt);
}

// As the index of a WebDataset has it.
FakeDataset members(bool labelled) {
  return FakeDataset(sources::RecordKind::tar,
                     {{{"cls", batch::ElementType::u8, {}, false},
                       {"jpg", batch::ElementType::u8, {6}, true},
                       {"txt", batch::ElementType::u8, {9}, true}}},
                     {2048, 2048}, labelled);
}

TEST_CASE("samples of several parts without a step are all of them; a named one stands alone") {
  const auto names = [](const prepare::Pipeline& pipeline) {
    std::vector<std::string> all;
    for (const batch::Field& field : pipeline.spec().fields) all.push_back(field.name);
    return all;
  };
  using Names = std::vector<std::string>;
  const auto with_field = [](std::string_view name, const sources::SampleIndex& dataset,
                             std::string_view steps = "[]") {
    return test::compile(
        input::parse_yaml(fmt::format("name: x\nfield: {}\nsteps: {}\n", name, steps), "test.yaml"),
        dataset);
  };
  CHECK(names(*compile("[]", members(false))) == Names{"cls", "jpg", "txt"});
  CHECK(names(*compile("[]", members(true))) == Names{"jpg", "txt", "label"});
  CHECK(names(*with_field("txt", members(true))) == Names{"txt", "label"});
  CHECK(with_field("txt", members(true))->spec().fields[0].rows_most() == 9);
  CHECK_THROWS_WITH(with_field("text", members(true)),
                    "test.yaml:2: key 'field': dataset 'made-up' has no field 'text'; its samples "
                    "have 'cls', 'jpg', 'txt'");
  CHECK_THROWS_WITH(with_field("text", FakeDataset(sources::RecordKind::whole, {}, {5}, false)),
                    "test.yaml:2: key 'field': dataset 'made-up' has no field 'text'; its samples "
                    "have 'bytes'");
  // Nothing is known of its parts: one that is named is what its samples have of it.
  const FakeDataset unknown(sources::RecordKind::tar, {}, {2048}, false);
  CHECK(error_of("[]", unknown).find("samples of this dataset make no batch") != std::string::npos);
  CHECK(names(*with_field("txt", unknown)) == Names{"txt"});

  const auto preparer = prepare::make_preparer();
  const std::string both = test::tar_member("1.jpg", "jpeg") + test::tar_member("1.txt", "text");
  const std::string one = test::tar_member("2.jpg", "only");
  const auto put = [&](const prepare::Pipeline& pipeline, Slot& slot, const std::string& record,
                       std::uint32_t place) {
    return test::prepare(*preparer, pipeline,
                         {.bytes = std::as_bytes(std::span(record)), .place = place}, slot);
  };
  const auto pipeline = compile("[]", members(true));
  Slot slot(*pipeline, 2);
  CHECK(put(*pipeline, slot, both, 0) == prepare::Prepared::done);
  CHECK(put(*pipeline, slot, one, 1) == prepare::Prepared::done);
  const auto text = [&](std::size_t field, std::size_t bytes) {
    const char* at = reinterpret_cast<const char*>(slot.memory().data()) +
                     batch::BlockLayout(pipeline->spec(), 2).fields[field].values;
    return std::string(at, bytes);
  };
  CHECK(text(0, 8) == "jpegonly");
  CHECK(text(1, 4) == "text");
  std::int64_t ends[3];
  std::memcpy(ends,
              slot.memory().data() + batch::BlockLayout(pipeline->spec(), 2).fields[1].offsets,
              sizeof ends);
  CHECK(ends[1] == 4);
  CHECK(ends[2] == 4);
  // A pipeline that names it needs it of each.
  const auto named = with_field("txt", members(true));
  Slot texts(*named, 2);
  CHECK(put(*named, texts, both, 0) == prepare::Prepared::done);
  CHECK(put(*named, texts, one, 1) == prepare::Prepared::corrupt);
  CHECK(preparer->problem() == "it has no field 'txt'");
}

// Labels as a damaged dataset has them, or one that has them now and then.
struct SomeLabelled final : FakeDataset {
  explicit SomeLabelled(std::vector<bool> which)
      : FakeDataset(sources::RecordKind::tar,
                    {{{"cls", batch::ElementType::u8, {1}, true},
                      {"jpg", batch::ElementType::u8, {6}, true}}},
                    std::vector<Bytes>(which.size(), 2048), false),
        labelled(std::move(which)) {}
  std::optional<std::int64_t> label(SampleId sample) const override {
    return labelled[sample.value] ? std::optional<std::int64_t>(3) : std::nullopt;
  }
  std::vector<bool> labelled;
};

TEST_CASE("a batch has labels where most samples have, whichever comes first") {
  CHECK(compile("[]", SomeLabelled({false, true, true}))->spec().fields[1].name == "label");
  CHECK(compile("[]", SomeLabelled({true, false, false}))->spec().find("label") == nullptr);
  CHECK(compile("[]", SomeLabelled({true, false, false}))->spec().fields[0].name == "cls");
}

TEST_CASE("halves are rounded to the nearest, halves of the last bit to even") {
  CHECK(prepare::to_f16(1.0f) == 0x3c00);
  CHECK(prepare::to_f16(-2.0f) == 0xc000);
  CHECK(prepare::to_f16(65504.0f) == 0x7bff);
  CHECK(prepare::to_f16(65519.9f) == 0x7bff);
  CHECK(prepare::to_f16(65520.0f) == 0x7c00);
  CHECK(prepare::to_f16(0x1.0p-24f) == 1);
  CHECK(prepare::to_f16(0x1.0p-25f) == 0);  // a tie, to even
  CHECK(prepare::to_f16(0x1.8p-24f) == 2);  // a tie, to even
  CHECK(prepare::to_f16(1.0f + 0x1.0p-11f) == 0x3c00);
  CHECK(prepare::to_f16(1.0f + 0x1.8p-10f) == 0x3c02);
  CHECK(prepare::to_bf16(1.0f) == 0x3f80);
  CHECK(prepare::to_bf16(1.0f + 0x1.0p-8f) == 0x3f80);
  CHECK(prepare::to_bf16(1.0f + 0x1.8p-7f) == 0x3f82);
  // Each half is its own nearest one, by way of a float.
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    float value = 0;
    std::uint16_t back = 0;
    prepare::convert(batch::ElementType::f16, reinterpret_cast<const std::byte*>(&half),
                     batch::ElementType::f32, reinterpret_cast<std::byte*>(&value), 1);
    prepare::convert(batch::ElementType::f32, reinterpret_cast<const std::byte*>(&value),
                     batch::ElementType::f16, reinterpret_cast<std::byte*>(&back), 1);
    if (back != half) FAIL("half ", bits);
  }
}

TEST_CASE("every pipeline of configs/ compiles") {
  int compiled = 0;
  for (const auto& file : std::filesystem::directory_iterator(source_dir() / "configs/pipelines")) {
    CAPTURE(file.path().string());
    const config::ConfigNode node = input::read_yaml_file(file.path());
    const bool tokens = file.path().stem() == "tokens";
    const auto pipeline = tokens ? test::compile(node, rows(batch::ElementType::u16, {1024}))
                                 : test::compile(node, test::files_dataset());
    CHECK(pipeline->name() == file.path().stem());
    ++compiled;
  }
  CHECK(compiled >= 6);
}

TEST_CASE("a field's name is a text") {
  const FakeDataset dataset(sources::RecordKind::value,
                            {{{std::string("x\0y", 3), batch::ElementType::f32, {4}, false}}}, {16},
                            false);
  try {
    test::compile("  []\n", dataset);
    FAIL("it was taken");
  } catch (const ConfigError& error) {
    CHECK(std::string(error.what()).find("a character that cannot be shown") != std::string::npos);
  }
}

// As of a table from Hugging Face: its file names classes, and each label in it is -1.
class Unlabelled : public FakeDataset {
 public:
  Unlabelled()
      : FakeDataset(sources::RecordKind::value, {{{"x", batch::ElementType::f32, {4}, false}}},
                    {16, 16}) {}
  std::optional<std::int64_t> label(SampleId) const override { return std::nullopt; }
};

TEST_CASE("names of classes without labels make no field") {
  const Unlabelled dataset;
  CHECK(test::compile("  []\n", dataset)->spec().find("label") == nullptr);
  const FakeDataset labelled(sources::RecordKind::value,
                             {{{"x", batch::ElementType::f32, {4}, false}}}, {16, 16});
  CHECK(test::compile("  []\n", labelled)->spec().find("label") != nullptr);
}

}  // namespace
}  // namespace batchflow::test::pipeline_test
