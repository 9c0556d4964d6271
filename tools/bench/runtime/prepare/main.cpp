// Cost of preparing pictures on one core, by CPU time: the stages, the whole, and beside it the
// cost of PyTorch, torchvision and Pillow for the same, in turn.
//
//   bench_prepare            five rounds; with python3-torchvision also the comparison
//   bench_prepare --small    a short one that only proves that it runs
//   bench_prepare --steps    only what each step costs
//   bench_prepare --kept     only pictures that are kept decoded, by each kind of kernels
#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "core/order/keys.h"
#include "programs/input/yaml.h"
#include "runtime/prepare/decode.h"
#include "runtime/prepare/geometry.h"
#include "runtime/prepare/kernels.h"
#include "runtime/prepare/pipeline.h"
#include "runtime/prepare/resample.h"
#include "tests/runtime/prepare/dataset.h"
#include "tests/runtime/prepare/pictures.h"
#include "tools/bench/process_cost.h"

namespace batchflow::bench {
namespace {

constexpr int kWidth = 500, kHeight = 375;
constexpr std::size_t kEncodedBytes = 105'000;
constexpr std::uint32_t kBlock = 64;

// At the quality that makes a picture of about so many bytes. Its grain is of brightness alone, as
// most detail of photographs is.
test::Encoded picture_of_size(std::uint64_t seed, std::size_t bytes) {
  const auto pixels = test::make_pixels(kWidth, kHeight, 3, seed, 24, false);
  const auto encode = [&](int quality) {
    return test::encode_jpeg(pixels, kWidth, kHeight, {.h = 2, .v = 2, .quality = quality});
  };
  int least = 10, most = 100;
  while (least < most) {
    const int quality = (least + most + 1) / 2;
    if (encode(quality).size() <= bytes)
      least = quality;
    else
      most = quality - 1;
  }
  return encode(least);
}

struct Stats {
  std::vector<double> values;
  std::string text(const char* unit) {
    std::sort(values.begin(), values.end());
    return fmt::format("{:.0f} {} ({:.0f} to {:.0f})", values[values.size() / 2], unit,
                       values.front(), values.back());
  }
};

double rate(double seconds, const std::function<void(std::size_t)>& one) {
  one(0);
  const double start = cpu_s();
  std::size_t done = 0;
  while (cpu_s() - start < seconds)
    for (int i = 0; i < 8; ++i) one(done++);
  return static_cast<double>(done) / (cpu_s() - start);
}

prepare::Box random_box(std::size_t i) {
  Random random(hash(3, i));
  return prepare::random_crop({kWidth, kHeight}, {0.08, 1}, {3.0 / 4, 4.0 / 3}, random);
}

struct Whole {
  std::unique_ptr<prepare::Pipeline> pipeline;
  batch::BlockLayout layout;
  std::vector<std::byte> slot;
  std::unique_ptr<prepare::Preparer> preparer;

  Whole(const std::string& file, const prepare::Kernels* kernels)
      : Whole(input::read_yaml_file(BATCHFLOW_ROOT "/configs/pipelines/" + file), kernels) {}
  Whole(const config::ConfigNode& node, const prepare::Kernels* kernels)
      : pipeline(compile(node)),
        layout(pipeline->spec(), kBlock),
        slot(static_cast<std::size_t>(layout.bytes)),
        preparer(kernels ? prepare::make_preparer(*kernels) : prepare::make_preparer()) {}

  static std::unique_ptr<prepare::Pipeline> compile(const config::ConfigNode& node) {
    const test::FakeDataset dataset(sources::RecordKind::whole, {}, {kEncodedBytes});
    std::unique_ptr<prepare::Pipeline> compiled;
    config::read_config(node, [&](config::ConfigSection& section) {
      compiled = prepare::compile_pipeline(section, dataset);
    });
    return compiled;
  }

  void run(const std::vector<test::Encoded>& pictures, std::size_t i, bool decoded = false) {
    run(pictures, i, decoded, i);
  }
  void run(const std::vector<test::Encoded>& pictures, std::size_t i, bool decoded,
           std::size_t draw) {
    prepare::Preparer::Input input{.sample = SampleId{i}, .bytes = pictures[i % pictures.size()]};
    input.decoded = decoded;
    input.label = 0;
    input.draw_key = hash(3, draw);
    const batch::BlockWriter writer(layout, slot.data());
    const prepare::Prepared prepared = preparer->prepare(
        *pipeline, input, writer, static_cast<std::uint32_t>(i % kBlock), nullptr);
    BF_CHECK(prepared == prepare::Prepared::done);
  }
};

// What the reference prints, or 0 where it cannot run.
double reference_rate(const std::string& folder, double seconds, const std::string& type) {
  const std::string command = fmt::format(
      "/usr/bin/python3 '{}/tools/bench/runtime/prepare/reference.py' '{}' {} {} "
      "2>/dev/null",
      BATCHFLOW_ROOT, folder, seconds, type);
  double rate = 0;
  if (FILE* pipe = popen(command.c_str(), "r")) {
    if (std::fscanf(pipe, "%lf", &rate) != 1) rate = 0;
    pclose(pipe);
  }
  return rate;
}

void compare(const std::vector<test::Encoded>& pictures, double seconds, int rounds) {
  const auto folder = std::filesystem::temp_directory_path() /
                      fmt::format("bench_prepare.{}", static_cast<long>(getpid()));
  std::filesystem::create_directories(folder);
  for (std::size_t i = 0; i < pictures.size(); ++i)
    std::ofstream(folder / fmt::format("{:03}.jpg", i), std::ios::binary)
        .write(reinterpret_cast<const char*>(pictures[i].data()),
               static_cast<std::streamsize>(pictures[i].size()));
  for (const auto& [file, type] : {std::pair<std::string, std::string>{"imagenet-train.yaml", "u8"},
                                   {"imagenet-train-f32.yaml", "f32"}}) {
    Whole whole(file, nullptr);
    Stats ours, theirs, ratios;
    for (int round = 0; round < rounds; ++round) {
      theirs.values.push_back(reference_rate(folder, seconds, type));
      if (theirs.values.back() == 0) {
        fmt::print("no comparison: python3-torchvision is not installed\n");
        std::filesystem::remove_all(folder);
        return;
      }
      ours.values.push_back(rate(seconds, [&](std::size_t i) { whole.run(pictures, i); }));
      ratios.values.push_back(100 * ours.values.back() / theirs.values.back());
    }
    fmt::print("{}: {}; torchvision: {}; ratio in hundredths: {}\n", file, ours.text("img/s"),
               theirs.text("img/s"), ratios.text(""));
  }
  std::filesystem::remove_all(folder);
}

// Pictures that are kept decoded, more of them than a cache holds. Beside each pipeline, in turn: a
// copy of as many bytes as it reads of them and writes, which is what memory alone takes.
void from_kept(const std::vector<test::Encoded>& pictures, double seconds, int rounds) {
  const std::size_t count = rounds == 1 ? pictures.size() : 160;  // 90 MB
  const auto decoder = prepare::make_jpeg_decoder();
  prepare::PictureBuffer picture;
  std::vector<test::Encoded> kept;
  for (std::size_t i = 0; i < count; ++i) {
    BF_CHECK(decoder->open(pictures[i % pictures.size()], {}));
    decoder->decode(prepare::whole({kWidth, kHeight}), picture);
    kept.emplace_back(prepare::PictureBuffer::bytes({kWidth, kHeight}));
    prepare::write_decoded(picture.view(), kept.back().data());
  }
  std::vector<std::byte> row(std::size_t{kWidth} * prepare::kChannels);
  for (const std::string file : {"imagenet-train.yaml", "imagenet-train-f32.yaml"}) {
    std::vector<std::unique_ptr<Whole>> kinds;
    for (const prepare::Kernels* kernels : prepare::all_kernels())
      kinds.push_back(std::make_unique<Whole>(file, kernels));
    std::vector<std::byte>& slot = kinds[0]->slot;
    const std::size_t made = slot.size() / kBlock;
    const auto copy = [&](std::size_t i) {
      prepare::PictureView view;
      BF_CHECK(prepare::read_decoded(kept[i % count], view));
      const prepare::PictureView part = view.part(random_box(i));
      for (int y = 0; y < part.extent.height; ++y)
        std::memcpy(row.data(), part.row(y),
                    static_cast<std::size_t>(part.extent.width) * prepare::kChannels);
      std::byte* const to = slot.data() + i % kBlock * made;
      for (std::size_t at = 0; at < made; at += row.size())
        std::memcpy(to + at, row.data(), std::min(row.size(), made - at));
    };
    Stats copies;
    std::vector<Stats> ours(kinds.size()), near(kinds.size());
    for (int round = 0; round < rounds; ++round) {
      copies.values.push_back(1e6 / rate(seconds, copy));
      for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
        const auto time_of = [&](std::size_t pictures_used) {
          return 1e6 / rate(seconds, [&](std::size_t i) {
                   kinds[kind]->run(kept, i % pictures_used, true, i);
                 });
        };
        ours[kind].values.push_back(time_of(count));
        near[kind].values.push_back(time_of(1));
      }
    }
    fmt::print("{} of kept pictures; a copy of the bytes: {}\n", file, copies.text("us"));
    for (std::size_t kind = 0; kind < kinds.size(); ++kind)
      fmt::print("  {}: {}; of one picture, which lies in a cache: {}\n",
                 prepare::all_kernels()[kind]->name, ours[kind].text("us"), near[kind].text("us"));
  }
}

// What each step adds to a picture of 224 x 224 that is kept decoded.
void of_steps(double seconds, int rounds) {
  const auto pixels = test::make_pixels(224, 224, 3, 1, 24, false);
  prepare::PictureView view;
  view.pixels = pixels.data();
  view.stride = 224 * prepare::kChannels;
  view.extent = {224, 224};
  const std::vector<test::Encoded> kept = {[&] {
    test::Encoded form(prepare::PictureBuffer::bytes(view.extent));
    prepare::write_decoded(view, form.data());
    return form;
  }()};
  // Random, so that what is kept is the picture before it.
  const std::string none =
      "{step: horizontal_flip, probability: 0}, {step: centre_crop, size: 224}";
  const auto time_of = [&](const std::string& step) {
    Whole whole(
        input::parse_yaml("{name: x, steps: [{step: decode}, " + none + step + "]}", "bench"),
        nullptr);
    Stats stats;
    for (int round = 0; round < rounds; ++round)
      stats.values.push_back(1e6 / rate(seconds, [&](std::size_t i) { whole.run(kept, i, true); }));
    std::sort(stats.values.begin(), stats.values.end());
    return stats.values[stats.values.size() / 2];
  };
  const double base = time_of("");
  fmt::print("each step, of a picture of 224 x 224, in us a sample:\n");
  for (const std::string step : {"resize, size: [160, 160]",
                                 "resize, size: [160, 160], interpolation: bicubic",
                                 "resize, size: [160, 160], interpolation: nearest",
                                 "random_crop, size: 224, padding: 16",
                                 "random_crop, size: 224, padding: 16, padding_mode: reflect",
                                 "horizontal_flip, probability: 1",
                                 "vertical_flip, probability: 1",
                                 "random_rotation, degrees: 30",
                                 "random_rotation, degrees: 30, interpolation: bilinear",
                                 "random_affine, degrees: 30, scale: [0.8, 1.2], shear: 10",
                                 "colour_jitter, brightness: 0.4, contrast: 0.4, saturation: 0.4",
                                 "colour_jitter, hue: 0.1",
                                 "greyscale",
                                 "gaussian_blur, kernel_size: 5",
                                 "gaussian_blur, kernel_size: 23",
                                 "sharpness, factor: 2, probability: 1",
                                 "invert, probability: 1",
                                 "posterize, bits: 4, probability: 1",
                                 "autocontrast, probability: 1",
                                 "equalize, probability: 1",
                                 "rand_augment",
                                 "trivial_augment_wide",
                                 "auto_augment",
                                 "random_erasing, probability: 1",
                                 "random_erasing, probability: 1, value: [1, 2, 3]"})
    fmt::print("  {:.0f}  {}\n", time_of(", {step: " + step + "}") - base, step);
}

std::vector<test::Encoded> made_pictures(bool small) {
  std::vector<test::Encoded> pictures;
  for (std::uint64_t seed = 0; seed < (small ? 2u : 32u); ++seed)
    pictures.push_back(picture_of_size(seed, kEncodedBytes));
  return pictures;
}

void run(bool small) {
  const double seconds = small ? 0.01 : 1;
  const int rounds = small ? 1 : 5;
  const std::vector<test::Encoded> pictures = made_pictures(small);
  fmt::print(
      "{} pictures of {} x {}, the first of {} bytes; img/s of one core: middle of {} "
      "rounds (least to most)\n",
      pictures.size(), kWidth, kHeight, pictures[0].size(), rounds);

  const auto decoder = prepare::make_jpeg_decoder(),
             library = prepare::make_jpeg_decoder(prepare::JpegScans::of_library);
  prepare::PictureBuffer buffer, out;
  struct Stage {
    std::string name;
    std::function<void(std::size_t)> one;
    Stats stats{};
  };
  std::vector<Stage> stages;
  const auto decode = [&](prepare::Decoder& by, std::size_t i, const prepare::Box& box) {
    BF_CHECK(by.open(pictures[i % pictures.size()], {}));
    by.decode(box, buffer);
  };
  for (prepare::Decoder* by : {decoder.get(), library.get()}) {
    const char* codes = by == library.get() ? " (libjpeg-turbo reads the codes)" : "";
    stages.push_back({fmt::format("decode, whole{}", codes), [&, by](std::size_t i) {
                        decode(*by, i, prepare::whole({kWidth, kHeight}));
                      }});
    stages.push_back({fmt::format("decode, random crop{}", codes),
                      [&, by](std::size_t i) { decode(*by, i, random_box(i)); }});
  }
  const std::vector<const prepare::Kernels*> versions = prepare::all_kernels();
  std::vector<std::unique_ptr<prepare::Resampler>> resamplers;
  std::vector<std::unique_ptr<Whole>> wholes;
  prepare::PictureBuffer source;
  source.reset({kWidth, kHeight});
  for (const prepare::Kernels* kernels : versions) {
    resamplers.push_back(std::make_unique<prepare::Resampler>(*kernels));
    stages.push_back(
        {fmt::format("crop, resize, flip ({})", kernels->name),
         [&, resampler = resamplers.back().get()](std::size_t i) {
           resampler->run(prepare::Scaling{random_box(i), {224, 224}, {0, 0, 224, 224}, i % 2 == 0},
                          source.view(), prepare::whole({kWidth, kHeight}), out);
         }});
    for (const std::string file :
         {"imagenet-train.yaml", "imagenet-train-f32.yaml", "imagenet-val.yaml"}) {
      wholes.push_back(std::make_unique<Whole>(file, kernels));
      stages.push_back({fmt::format("{} ({})", file, kernels->name),
                        [&, one = wholes.back().get()](std::size_t i) { one->run(pictures, i); }});
    }
  }
  for (int round = 0; round < rounds; ++round)
    for (Stage& stage : stages) stage.stats.values.push_back(rate(seconds / 3, stage.one));
  for (Stage& stage : stages) fmt::print("{}: {}\n", stage.name, stage.stats.text("img/s"));
  from_kept(pictures, seconds / 3, rounds);
  of_steps(seconds / 10, rounds);
  if (!small) compare(pictures, seconds, rounds);
}

}  // namespace
}  // namespace batchflow::bench

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string_view argument = argc > 1 ? argv[1] : "";
  const bool small = argument == "--small", steps = argument == "--steps",
             kept = argument == "--kept";
  if (argc > 2 || (argc == 2 && !small && !steps && !kept)) {
    fmt::print(stderr,
               "bench_prepare: unknown argument; write --small, --steps, --kept or nothing\n");
    return 2;
  }
  if (steps)
    batchflow::bench::of_steps(0.1, 5);
  else if (kept)
    batchflow::bench::from_kept(batchflow::bench::made_pictures(false), 1.0 / 3, 5);
  else
    batchflow::bench::run(small);
  return 0;
}
