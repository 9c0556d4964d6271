// Plugins give the bytes that built-in steps of the same meaning give, wherever they stand.
#include <doctest/doctest.h>

#include "tests/runtime/prepare/pictures.h"
#include "tests/runtime/step/steps.h"

namespace batchflow::test::twins_test {
namespace {

std::vector<Encoded> pictures() {
  std::vector<Encoded> all;
  for (int i = 0; i < 6; ++i)
    all.push_back(
        encode_jpeg(make_pixels(60 + 13 * i, 90 - 7 * i, 3, hash(i)), 60 + 13 * i, 90 - 7 * i, {}));
  return all;
}

struct Made {
  std::vector<std::byte> slot;
  std::vector<std::byte> decoded;
  friend bool operator==(const Made&, const Made&) = default;
};

// Every picture under some keys; `twice`: once more, from its decoded form.
std::vector<Made> make(const prepare::Pipeline& pipeline, bool twice = false) {
  const std::unique_ptr<prepare::Preparer> preparer = prepare::make_preparer();
  std::vector<Made> all;
  for (const Encoded& picture : pictures()) {
    for (std::uint64_t key = 1; key <= 8; ++key) {
      Made made;
      Slot slot(pipeline);
      REQUIRE(prepare(*preparer, pipeline, {picture, false, hash(key)}, slot, &made.decoded) ==
              prepare::Prepared::done);
      made.slot = slot.field(0);
      if (twice) {
        Slot again(pipeline);
        REQUIRE(prepare(*preparer, pipeline, {made.decoded, true, hash(key)}, again) ==
                prepare::Prepared::done);
        CHECK(again.field(0) == made.slot);
      }
      all.push_back(std::move(made));
    }
  }
  return all;
}

std::string by(std::string_view name, std::string_view more = "") {
  return fmt::format("- {{plugin: {}{}}}\n", plugin(name), more);
}

const std::string kDecode = "- {step: decode}\n", kFlip = "- {step: horizontal_flip}\n",
                  kCrop = "- {step: centre_crop, size: 40}\n",
                  kRandomCrop = "- {step: random_resized_crop, size: 40}\n",
                  kPlanes = "- {step: layout, order: nchw}\n",
                  kNormalise = "- {step: normalise, mean: [0.5, 0.4, 0.3], std: [0.2, 0.2, 0.3]}\n";

TEST_CASE("pictures of plugins are bounded as all are") {
  const FakeDataset files = files_dataset();
  const config::ConfigNode crop =
      input::parse_yaml("name: test\nsteps:\n" + kDecode + by("crop", ", size: 700"), "test.yaml");
  const memory::ScratchLimits enough{Bytes{1} << 20, Bytes{2} << 20},
      too_few{Bytes{1} << 20, 1'000'000};
  CHECK(prepare::compile_pipeline(crop, files, {}, enough));
  try {
    prepare::compile_pipeline(crop, files, {}, too_few);
    FAIL_CHECK("it is not refused");
  } catch (const ConfigError& error) {
    CHECK(std::string(error.what()).find("takes 1.4 MiB") != std::string::npos);
  }
  // A process takes a quarter of its memory in, and the scratch memory what it gives out.
  const auto flip = compile_steps(kDecode + by("flip") + kCrop, files);
  const auto preparer = prepare::make_preparer();
  Slot slot(*flip);
  const Encoded large = encode_jpeg(2500, 2400, {});
  CHECK(prepare(*preparer, *flip, {large}, slot) == prepare::Prepared::corrupt);
  CHECK(preparer->problem().find("a sample of 18000000 bytes") != std::string::npos);
  const auto bounded = prepare::make_preparer(
      std::make_shared<memory::ScratchBudget>(memory::ScratchLimits{0, Bytes{4} << 20}));
  CHECK(prepare(*bounded, *flip, {encode_jpeg(1000, 900, {})}, slot) == prepare::Prepared::corrupt);
  CHECK(bounded->problem().find("of which a sample may have 4.0 MiB") != std::string::npos);
}

TEST_CASE("a random plugin is its native twin, byte for byte, with the same draws") {
  const FakeDataset files = files_dataset();
  // Behind a crop, among others; before one, with pictures of unlike sizes; of the last.
  const std::pair<std::string, std::string> twins[] = {
      {kDecode + kRandomCrop + kFlip + kPlanes, kDecode + kRandomCrop + by("flip") + kPlanes},
      {kDecode + kFlip + kRandomCrop + kNormalise, kDecode + by("flip") + kRandomCrop + kNormalise},
      {kDecode + kCrop + kFlip, kDecode + kCrop + by("flip")},
      {kDecode + kFlip + kFlip + kCrop, kDecode + by("flip") + by("flip") + kCrop},
      {kDecode + kCrop + "- {step: horizontal_flip, probability: 0.9}\n",
       kDecode + kCrop + by("flip", ", probability: 0.9")},
  };
  for (const auto& [native, with_plugin] : twins) {
    CAPTURE(with_plugin);
    const auto one = compile(native), other = compile_steps(with_plugin, files);
    const std::vector<Made> wanted = make(*one);
    CHECK(make(*other, true) == wanted);
    CHECK(other->spec() == one->spec());
    CHECK(other->info().has_random);
    CHECK(other->info().prefix_hash == one->info().prefix_hash);
    CHECK(other->info().hash != one->info().hash);
    CHECK(make(*other) == wanted);  // in other processes
  }
}

TEST_CASE("a deterministic plugin is its native twin, and its pictures are what is kept decoded") {
  const FakeDataset files = files_dataset();
  const std::pair<std::string, std::string> twins[] = {
      {kDecode + kCrop + kFlip, kDecode + by("crop", ", size: 40") + kFlip},
      {kDecode + kCrop + kNormalise + kPlanes,
       kDecode + by("crop", ", size: 40") + kNormalise + kPlanes},
      {kDecode + kCrop + "- {step: cast, to: f32}\n" + kPlanes, kDecode + kCrop + by("planes")},
      {kDecode + kCrop + kFlip + "- {step: cast, to: f32}\n" + kPlanes,
       kDecode + by("crop", ", size: 40") + by("flip") + by("planes")},
  };
  for (const auto& [native, with_plugin] : twins) {
    CAPTURE(with_plugin);
    const auto one = compile(native), other = compile_steps(with_plugin, files);
    const std::vector<Made> wanted = make(*one), made = make(*other, true);
    for (std::size_t i = 0; i < made.size(); ++i) {
      CHECK(made[i].slot == wanted[i].slot);
      CHECK(made[i].decoded == wanted[i].decoded);
    }
    CHECK(other->spec() == one->spec());
    CHECK(other->info().has_random == one->info().has_random);
  }
}

TEST_CASE("canary: another seed, or none, is not the twin") {
  const FakeDataset files = files_dataset();
  const auto one = compile(kDecode + kCrop + kFlip);
  // The same step at another place in the list draws otherwise.
  const auto other = compile_steps(kDecode + kCrop + kCrop + by("flip"), files);
  CHECK(make(*other) != make(*one));
}

TEST_CASE("bytes become rows of numbers, ragged before and after") {
  const FakeDataset files(sources::RecordKind::whole, {}, {40, 10});
  const auto pipeline = compile_steps(by("words", ", columns: 2"), files);
  REQUIRE(pipeline->spec().fields[0] ==
          batch::Field{"numbers", batch::ElementType::i32, {40, 2}, true});
  const std::unique_ptr<prepare::Preparer> preparer = prepare::make_preparer();
  const std::vector<std::string> texts = {"1 2 3", "", "77", "5 5 5 5 5 5 5 5 5 5 5 5"};
  Slot slot(*pipeline, 4);
  for (std::uint32_t place = 0; place < texts.size(); ++place)
    REQUIRE(prepare(*preparer, *pipeline, {std::as_bytes(std::span(texts[place])), false, 0, place},
                    slot) == prepare::Prepared::done);
  const batch::BlockLayout layout(pipeline->spec(), 4);
  std::int64_t offsets[5];
  std::memcpy(offsets, slot.memory().data() + layout.fields[0].offsets, sizeof offsets);
  CHECK(std::vector(offsets, offsets + 5) == std::vector<std::int64_t>{0, 3, 3, 4, 16});
  std::int32_t values[32];
  std::memcpy(values, slot.memory().data() + layout.fields[0].values, sizeof values);
  CHECK(std::vector(values, values + 8) == std::vector<std::int32_t>{1, 1, 2, 2, 3, 3, 77, 77});
  CHECK(values[31] == 5);

  const std::string letter = "1 x", much(41, '1');
  CHECK(prepare(*preparer, *pipeline, {std::as_bytes(std::span(letter))}, slot) ==
        prepare::Prepared::corrupt);
  CHECK(preparer->problem() ==
        "step 'words' of " + plugin("words") + ": a letter where a digit should be");
  CHECK(prepare(*preparer, *pipeline, {std::as_bytes(std::span(much))}, slot) ==
        prepare::Prepared::corrupt);
  CHECK(pipeline->plugins()[0]->counters().starts == 1);

  // Rows that it says it made, and could not have.
  const auto lying = compile_steps(by("words", ", lies: true"), files);
  Slot other(*lying);
  CHECK(prepare(*preparer, *lying, {std::as_bytes(std::span(texts[0]))}, other) ==
        prepare::Prepared::corrupt);
  CHECK(preparer->problem().find("18446744073709551615 rows, where 40 are the most") !=
        std::string::npos);
}

TEST_CASE("what deterministic plugins make of rows is what is kept") {
  const FakeDataset rows = rows_dataset();
  const std::string copy = mischief("nothing");
  const auto pipeline = compile_steps(copy + copy, rows);
  const engine::PipelineInfo& info = pipeline->info();
  CHECK(info.decoded_bytes == kColumns * 8);
  CHECK(info.prefix_hash == info.hash);
  const std::unique_ptr<prepare::Preparer> preparer = prepare::make_preparer();
  const std::vector<std::int64_t> numbers = row(5);
  const auto stored = std::as_bytes(std::span(numbers));
  std::vector<std::byte> kept;
  Slot slot(*pipeline), again(*pipeline);
  REQUIRE(prepare(*preparer, *pipeline, {stored}, slot, &kept) == prepare::Prepared::done);
  CHECK(std::equal(kept.begin(), kept.end(), stored.begin(), stored.end()));
  REQUIRE(prepare(*preparer, *pipeline, {kept, true}, again) == prepare::Prepared::done);
  CHECK(again.field(0) == slot.field(0));
  for (const auto& one : pipeline->plugins()) CHECK(one->counters().samples == 1);
  // A kept form that was cut is no sample.
  CHECK(prepare(*preparer, *pipeline, {std::span(kept).first(8), true}, again) ==
        prepare::Prepared::corrupt);
  // Ragged results have no size that is known.
  const FakeDataset files(sources::RecordKind::whole, {}, {40, 10});
  const auto ragged = compile_steps(by("words", ", columns: 2"), files);
  CHECK(ragged->info().decoded_bytes == 0);
  CHECK(ragged->info().prefix_hash == 0);
}

TEST_CASE("what a plugin is made of names its pipeline: its bytes and parameters, not its place") {
  const FakeDataset files = files_dataset();
  const auto hash_of = [&](const std::string& steps) {
    return compile_steps(kDecode + kCrop + steps, files)->info().hash;
  };
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("steps-{}", getpid());
  std::filesystem::create_directory(folder);
  const auto copy = folder / "copy.so";
  std::filesystem::copy_file(plugin("flip"), copy);
  const std::string copied = fmt::format("- {{plugin: {}}}\n", copy.string());
  const Digest flip = hash_of(by("flip"));
  CHECK(hash_of(by("flip")) == flip);
  CHECK(hash_of(copied) == flip);
  CHECK(hash_of(by("flip", ", probability: 0.25")) != flip);
  std::ofstream(copy, std::ios::app) << "more";
  CHECK(hash_of(copied) != flip);

  // What has been compiled goes on as it was, whatever becomes of the file.
  const auto pipeline = compile_steps(kDecode + kCrop + copied, files);
  std::filesystem::remove_all(folder);
  CHECK(make(*pipeline) == make(*compile(kDecode + kCrop + kFlip)));
}

}  // namespace
}  // namespace batchflow::test::twins_test
