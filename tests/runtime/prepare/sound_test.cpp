#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/order/keys.h"
#include "runtime/audio/sound_file.h"
#include "tests/config_error.h"
#include "tests/runtime/prepare/golden.h"
#include "tests/runtime/prepare/harness.h"
#include "tests/skip.h"

// libsndfile 1.2.0 forgets what it has of an Ogg Vorbis that has a damaged header
// (docs/pipelines.md, "Sound").
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions();
const char* __lsan_default_suppressions() {
  return "leak:vorbis_info_init";
}

namespace batchflow::test::sound_test {
namespace {

std::filesystem::path folder() {
  return source_dir() / "tests/runtime/prepare/golden_sound";
}

FakeDataset sounds() {
  return {sources::RecordKind::whole, {}, {100'000}, false};
}

std::unique_ptr<prepare::Pipeline> steps(const std::string& text,
                                         const sources::SampleIndex& dataset = sounds()) {
  return compile("  " + text + "\n", dataset);
}

std::string problem_of(const std::string& text, const sources::SampleIndex& dataset = sounds()) {
  return config_error([&] { steps(text, dataset); });
}

// The sample's values, and what is wrong with it.
struct Made {
  std::vector<float> values;
  std::string problem;
};
Made make(const prepare::Pipeline& pipeline, std::span<const std::byte> bytes,
          std::uint64_t draw_key = 0) {
  const auto preparer = prepare::make_preparer(prepare::plain_kernels());
  const batch::BlockLayout layout(pipeline.spec(), 1);
  std::vector<std::byte> memory(layout.bytes);
  const batch::BlockWriter out{layout, memory.data()};
  const prepare::Preparer::Input input{
      .sample = SampleId{0}, .bytes = bytes, .decoded = false, .draw_key = draw_key};
  if (preparer->prepare(pipeline, input, out, 0, nullptr) != prepare::Prepared::done)
    return {{}, std::string(preparer->problem())};
  const batch::BlockLayout::FieldLayout& field = layout.fields[0];
  std::uint64_t count = field.row_bytes / sizeof(float);
  if (field.ragged) {
    std::uint64_t rows = 0;
    std::memcpy(&rows, memory.data() + field.offsets + sizeof rows, sizeof rows);
    count *= rows;
  }
  Made made;
  made.values.resize(count);
  std::memcpy(made.values.data(), memory.data() + field.values, count * sizeof(float));
  return made;
}

TEST_CASE("sounds are prepared as torchaudio prepares them") {
  if (!audio::has_sound_files()) return skipped("libsndfile1-dev is not installed");
  std::ifstream cases(folder() / "cases.txt");
  std::size_t count = 0;
  for (std::string line; std::getline(cases, line); ++count) {
    const std::size_t first = line.find('\t'), second = line.find('\t', first + 1);
    const std::string name = line.substr(0, first);
    INFO(name);
    const auto pipeline = steps(line.substr(second + 1));
    const Made made =
        make(*pipeline, read_file(folder() / line.substr(first + 1, second - first - 1)));
    REQUIRE(made.problem.empty());
    const auto bytes = read_file(folder() / (name + ".bin"));
    REQUIRE(made.values.size() * sizeof(float) == bytes.size());
    std::vector<float> expected(made.values.size());
    std::memcpy(expected.data(), bytes.data(), bytes.size());
    float largest = 0, off = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      off = std::max(off, std::abs(expected[i] - made.values[i]));
    }
    // Sums are added in another order; a decibel of little power moves most.
    const float allowed = name.ends_with("decibels") ? 0.02F : 2e-5F * std::max(1.0F, largest);
    CHECK_MESSAGE(off <= allowed, fmt::format("off by {} of {}", off, largest));
  }
  CHECK(count >= 35);
}

TEST_CASE("a cut anywhere is a part of the sound, drawn anew for each key") {
  if (!audio::has_sound_files()) return skipped("libsndfile1-dev is not installed");
  const auto bytes = read_file(folder() / "mono.wav");
  const Made whole = make(*steps("[{step: decode_sound, rate: 16000}]"), bytes);
  const auto pipeline =
      steps("[{step: decode_sound, rate: 16000}, {step: random_cut_sound, frames: 2000}]");
  CHECK(pipeline->info().has_random);
  std::set<std::uint64_t> starts;
  for (std::uint64_t key = 0; key < 200; ++key) {
    const Made made = make(*pipeline, bytes, key);
    Random random(order::step_seed(key, 1));
    const std::uint64_t start = random.below(whole.values.size() - 2000 + 1);
    REQUIRE(std::equal(made.values.begin(), made.values.end(),
                       whole.values.begin() + static_cast<std::ptrdiff_t>(start)));
    CHECK(make(*pipeline, bytes, key).values == made.values);
    starts.insert(start);
  }
  CHECK(starts.size() > 100);
  // Behind a shorter one there is silence.
  const Made padded = make(
      *steps("[{step: decode_sound, rate: 16000}, {step: random_cut_sound, frames: 5000}]"), bytes);
  CHECK(std::equal(whole.values.begin(), whole.values.end(), padded.values.begin()));
  CHECK(std::all_of(padded.values.begin() + static_cast<std::ptrdiff_t>(whole.values.size()),
                    padded.values.end(), [](float value) { return value == 0; }));
}

TEST_CASE("sounds become numbers of another type") {
  if (!audio::has_sound_files()) return skipped("libsndfile1-dev is not installed");
  const auto pipeline = steps(
      "[{step: decode_sound, rate: 16000}, {step: cut_sound, frames: 100}, {step: cast, to: f16}, "
      "{step: reshape, shape: [4, 25]}]");
  const batch::Field& field = pipeline->spec().fields[0];
  CHECK(field.name == "sound");
  CHECK(field.type == batch::ElementType::f16);
  CHECK(field.shape == std::vector<std::uint64_t>{4, 25});
  CHECK(make(*pipeline, read_file(folder() / "mono.wav")).problem.empty());
}

TEST_CASE("what is no sound, or another than the pipeline is for, is corrupt") {
  if (!audio::has_sound_files()) return skipped("libsndfile1-dev is not installed");
  const auto wave = read_file(folder() / "stereo.wav");
  const auto usual = steps("[{step: decode_sound, rate: 16000}]");
  CHECK(make(*usual, {}).problem == "it is no sound that can be decoded");
  CHECK(make(*usual, read_file(folder() / "cases.txt")).problem ==
        "it is no sound that can be decoded");
  CHECK(make(*steps("[{step: decode_sound, rate: 16000, channels: 3}, "
                    "{step: cut_sound, frames: 10}]"),
             wave)
            .problem == "it has 2 channels, and the pipeline 3");
  std::vector<std::byte> cut(wave.begin(), wave.begin() + 1044);
  CHECK(make(*usual, cut).problem == "the data ends early");
  std::vector<std::byte> no_number = read_file(folder() / "float.wav");
  const float infinite = INFINITY;
  std::memcpy(no_number.data() + no_number.size() - sizeof infinite, &infinite, sizeof infinite);
  CHECK(make(*usual, no_number).problem == "it has values that are no numbers");
  // Two seconds of silence.
  std::vector<std::byte> longer = wave;
  longer.resize(44 + 2 * 4 * 22050);
  const auto size = static_cast<std::uint32_t>(longer.size());
  const std::uint32_t riff = size - 8, data = size - 44;
  std::memcpy(longer.data() + 4, &riff, sizeof riff);
  std::memcpy(longer.data() + 40, &data, sizeof data);
  CHECK(make(*usual, longer).problem.empty());
  CHECK(make(*steps("[{step: decode_sound, rate: 16000, seconds_most: 1}]"), longer).problem ==
        "it lasts 2.0 s, of which 1 are allowed");
}

// Bounded time and memory, and no finding of a sanitizer.
TEST_CASE("damaged sounds are decoded or corrupt") {
  if (!audio::has_sound_files()) return skipped("libsndfile1-dev is not installed");
  const auto pipeline = steps(
      "[{step: decode_sound, rate: 16000, seconds_most: 5}, {step: cut_sound, frames: 1200}, "
      "{step: mel_spectrogram, n_fft: 64}]");
  Random random(1);
  std::size_t corrupt = 0, done = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    const std::string ending = entry.path().extension();
    if (ending == ".bin" || ending == ".txt") continue;
    const auto intact = read_file(entry.path());
    for (int round = 0; round < 40; ++round) {
      auto bytes = intact;
      if (round % 4 == 0) bytes.resize(random.below(bytes.size()));
      for (std::uint64_t i = random.below(20); i-- > 0 && !bytes.empty();)
        bytes[random.below(round % 2 == 0 ? bytes.size()
                                          : std::min<std::size_t>(100, bytes.size()))] =
            static_cast<std::byte>(random.below(256));
      (make(*pipeline, bytes).problem.empty() ? done : corrupt) += 1;
    }
  }
  CHECK(corrupt > 20);
  CHECK(done > 20);
}

TEST_CASE("pipelines of sounds that cannot work are refused") {
  if (!audio::has_sound_files()) return skipped("libsndfile1-dev is not installed");
  const auto says = [](const std::string& steps, const std::string& part,
                       const sources::SampleIndex& dataset = sounds()) {
    const std::string problem = problem_of(steps, dataset);
    CHECK_MESSAGE(problem.find(part) != std::string::npos, problem);
  };
  says("[{step: decode_sound}]", "rate': is missing");
  says("[{step: cut_sound, frames: 10}]", "there is no sound yet");
  says("[{step: decode_sound, rate: 8000}, {step: mel_spectrogram}]",
       "sounds would have different lengths");
  says("[{step: decode_sound, rate: 8000, channels: 2}]", "would have different lengths");
  says(
      "[{step: decode_sound, rate: 8000}, {step: cut_sound, frames: 100}, "
      "{step: mel_spectrogram}]",
      "a sound of 100 frames is too short");
  says(
      "[{step: decode_sound, rate: 8000}, {step: cut_sound, frames: 900}, "
      "{step: mel_spectrogram, f_max: 5000}]",
      "f_max at most half of the rate");
  says(
      "[{step: decode_sound, rate: 8000}, {step: cut_sound, frames: 900}, "
      "{step: mel_spectrogram, n_fft: 401}]",
      "it is odd");
  says("[{step: decode_sound, rate: 8000}, {step: layout, order: nchw}]", "works on pictures");
  const FakeDataset rows(sources::RecordKind::rows, {{{"x", batch::ElementType::f32, {4}, false}}},
                         {16}, false);
  says("[{step: decode_sound, rate: 8000}]", "field 'x' is no encoded sound", rows);
}

}  // namespace
}  // namespace batchflow::test::sound_test
