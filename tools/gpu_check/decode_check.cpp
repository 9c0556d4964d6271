// Decoding on the GPU beside decoding on the CPU: pixels, damaged and rare pictures, and slots that
// are written again while something reads them.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>

#include "runtime/gpu/cuda_slot_events.h"
#include "runtime/prepare/decode.h"
#include "tests/runtime/prepare/pictures.h"
#include "tools/gpu_check/decode_tools.h"
#include "tools/gpu_check/slow_compare.h"

namespace batchflow::gpu_check {
namespace {

using gpu::JpegDecoders;
using gpu::JpegPicture;
using gpu::JpegResult;
using gpu::JpegStatus;
using gpu::JpegWay;

struct Case {
  std::string what;
  File file;
};

std::vector<std::uint8_t> decoded_on_cpu(const File& file) {
  const auto decoder = prepare::make_jpeg_decoder();
  prepare::PictureBuffer picture;
  if (!decoder->open(file, {})) return {};
  const prepare::Box all = prepare::whole(decoder->extent());
  if (decoder->decode(all, picture) != all) return {};
  const std::size_t bytes = picture.stride() * static_cast<std::size_t>(all.height);
  return {picture.pixels(), picture.pixels() + bytes};
}

std::vector<Case> good_pictures() {
  constexpr int kSides[][2] = {{1, 1},     {7, 5},      {8, 8},      {16, 16},
                               {17, 33},   {64, 48},    {127, 129},  {500, 375},
                               {375, 500}, {1023, 767}, {1920, 1080}};
  struct Sampling {
    const char* name;
    int h, v;
  };
  constexpr Sampling kSamplings[] = {{"4:4:4", 1, 1}, {"4:2:2", 2, 1}, {"4:2:0", 2, 2}};
  std::vector<Case> cases;
  const auto add = [&](const std::string& what, int width, int height, const test::JpegWay& way) {
    const int channels = way.from == JCS_GRAYSCALE ? 1 : 3;
    cases.push_back(
        {fmt::format("{} {} x {}", what, width, height),
         test::encode_jpeg(test::make_pixels(width, height, channels, cases.size(), 20, false),
                           width, height, way)});
  };
  for (const auto& [width, height] : kSides) {
    for (const Sampling& sampling : kSamplings)
      add(sampling.name, width, height, {.h = sampling.h, .v = sampling.v});
    add("grey", width, height, {.from = JCS_GRAYSCALE});
  }
  add("progressive", 500, 375, {.h = 2, .v = 2, .progressive = true});
  add("restarts", 500, 375, {.h = 2, .v = 2, .restart_rows = 1});
  add("own codes", 500, 375, {.h = 2, .v = 2, .own_codes = true});
  add("quality 30", 500, 375, {.h = 2, .v = 2, .quality = 30});
  return cases;
}

std::vector<Case> bad_pictures() {
  const File good = test::encode_jpeg(500, 375, {.h = 2, .v = 2});
  std::vector<Case> cases{{"empty", {}}, {"garbage", File(5000, std::byte{0x5a})}};
  File random;
  for (int i = 0; i < 5000; ++i) random.push_back(static_cast<std::byte>(i * 2654435761u >> 13));
  cases.push_back({"random bytes", random});
  for (const std::size_t part : {2, 30, 99})
    cases.push_back(
        {fmt::format("cut at {} %", part),
         File(good.begin(), good.begin() + static_cast<long>(good.size() * part / 100))});
  File middle = good;
  for (std::size_t i = middle.size() / 2; i < middle.size() / 2 + 64; ++i)
    middle[i] = std::byte{0xff};
  cases.push_back({"damaged in the middle", middle});
  cases.push_back({"CMYK", test::encode_jpeg(64, 64, {.from = JCS_CMYK})});
  return cases;
}

std::vector<JpegResult> decode(JpegDecoders& decoders, const BatchSlot& slot,
                               const std::vector<Case>& cases) {
  std::vector<const File*> files;
  for (const Case& one : cases) files.push_back(&one.file);
  const auto pictures = slot.pictures(files);
  std::vector<JpegResult> results(pictures.size());
  decoders.decode(pictures, results);
  return results;
}

struct Difference {
  int most = 0;
  double mean_most = 0;
  std::string where;

  void add(const std::vector<std::uint8_t>& got, const std::vector<std::uint8_t>& expected,
           const std::string& what) {
    std::uint64_t sum = 0;
    int largest = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const int one = std::abs(got[i] - expected[i]);
      largest = std::max(largest, one);
      sum += static_cast<std::uint64_t>(one);
    }
    if (largest > most) where = what;
    most = std::max(most, largest);
    mean_most =
        std::max(mean_most, static_cast<double>(sum) / static_cast<double>(expected.size()));
  }
};

void check_pixels(Report& report, JpegDecoders& decoders, JpegWay way) {
  const std::vector<Case> cases = good_pictures();
  std::vector<File> files;
  for (const Case& one : cases) files.push_back(one.file);
  const BatchSlot slot(cases.size(), slot_bytes_most(files));
  const auto results = decode(decoders, slot, cases);
  Difference difference;
  std::size_t decoded = 0;
  std::string refused;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (results[i].status != JpegStatus::decoded) {
      refused +=
          fmt::format("{}{} ({})", refused.empty() ? "" : ", ", cases[i].what, results[i].why);
      continue;
    }
    ++decoded;
    const auto expected = decoded_on_cpu(cases[i].file);
    std::vector<std::uint8_t> got(expected.size());
    BF_CUDA(cudaMemcpy(got.data(), slot.place(i), got.size(), cudaMemcpyDeviceToHost));
    difference.add(got, expected, cases[i].what);
  }
  const bool near = way == JpegWay::cpu ? difference.most == 0
                                        : difference.most <= gpu::kDifferenceMost &&
                                              difference.mean_most <= gpu::kDifferenceMeanMost;
  report.row(
      "decoding", fmt::format("{}: pixels beside the CPU's", name_of(way)),
      near && decoded > 0 ? Verdict::passed : Verdict::failed,
      fmt::format("{} of {} pictures; differ by {} at most ({}), by {:.3f} in the mean of the "
                  "worst",
                  decoded, cases.size(), difference.most, difference.where, difference.mean_most),
      way == JpegWay::cpu ? "0"
                          : fmt::format("at most {}, mean at most {}", gpu::kDifferenceMost,
                                        gpu::kDifferenceMeanMost));
  if (!refused.empty())
    report.row("decoding", fmt::format("{}: left to others", name_of(way)), Verdict::measured,
               refused);
}

// `judged` when the CPU decodes what the others refuse.
void check_bad(Report& report, JpegDecoders& decoders, std::string_view way, bool judged) {
  const std::vector<Case> cases = bad_pictures();
  const BatchSlot slot(cases.size(), std::size_t{1} << 20);
  const auto results = decode(decoders, slot, cases);
  std::string text;
  bool right = true;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    text += fmt::format("{}{}: {}", i ? "; " : "", cases[i].what, name_of(results[i].status));
    // Damage in the middle may go unnoticed on a GPU.
    if (cases[i].what == "damaged in the middle") continue;
    const bool rare = cases[i].what == "CMYK";
    if (judged && rare != (results[i].status == JpegStatus::decoded)) right = false;
    if (!judged && results[i].status == JpegStatus::decoded) right = false;
  }
  // And the next picture is decoded as if nothing had been.
  const std::vector<Case> next{{"next", test::encode_jpeg(300, 200, {.h = 2, .v = 2})}};
  right = right && decode(decoders, slot, next)[0].status == JpegStatus::decoded;
  report.row("decoding", fmt::format("{}: damaged and rare pictures", way),
             right ? Verdict::passed : Verdict::failed, text, "each its status");
}

// ---------------------------------------------------------------- slots that are still read ----

struct SlotTest {
  int rounds;
  std::size_t slots;
  std::uint64_t delay_ns;
  bool keeps_rule;  // false: the slot is written again at once, as no code should
};

// How many rounds saw bytes of another round.
int rounds_overwritten(JpegDecoders& decoders, const SlotTest& test, bool small) {
  std::vector<std::vector<Case>> sets(2);
  const int width = small ? 64 : 640, height = small ? 48 : 480;
  for (std::size_t set = 0; set < 2; ++set)
    for (std::size_t i = 0; i < 64; ++i)
      sets[set].push_back(
          {"", test::encode_jpeg(width, height, {.h = 2, .v = 2}, 1000 * set + i % 8)});
  const std::size_t each = gpu::slot_bytes({width, height});
  std::vector<std::unique_ptr<BatchSlot>> expected, slots;
  for (std::size_t set = 0; set < 2; ++set) {
    expected.push_back(std::make_unique<BatchSlot>(64, each));
    decode(decoders, *expected[set], sets[set]);
  }
  for (std::size_t i = 0; i < test.slots; ++i)
    slots.push_back(std::make_unique<BatchSlot>(64, each));
  BF_CUDA(cudaDeviceSynchronize());
  const auto events = gpu::cuda_slot_events(test.slots);
  gpu::SlotRing ring(test.slots, *events);
  DeviceMemory<unsigned long long> counts(static_cast<std::size_t>(test.rounds), 0);
  const Stopwatch reader;  // for its stream
  for (int round = 0; round < test.rounds; ++round) {
    const auto set = static_cast<std::size_t>(round) % 2;
    std::size_t slot = static_cast<std::size_t>(round) % test.slots;
    if (test.keeps_rule) {
      auto taken = ring.take();
      while (!taken) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        taken = ring.take();
      }
      slot = *taken;
    }
    decode(decoders, *slots[slot], sets[set]);
    slow_compare(slots[slot]->get(), expected[set]->get(), slots[slot]->bytes(), test.delay_ns,
                 counts.get() + round, reader.stream());
    if (test.keeps_rule) ring.release(slot, reader.stream());
  }
  BF_CUDA(cudaDeviceSynchronize());
  int overwritten = 0;
  for (const unsigned long long count : counts.values()) overwritten += count > 0;
  return overwritten;
}

void check_slots(Report& report, JpegDecoders& decoders, JpegWay way, bool sanitized) {
  const SlotTest test{sanitized ? 4 : 60, 3, 4'000'000, true};
  const int overwritten = rounds_overwritten(decoders, test, sanitized);
  report.row("decoding", fmt::format("{}: slots that a slow kernel reads", name_of(way)),
             overwritten == 0 ? Verdict::passed : Verdict::failed,
             fmt::format("{} of {} reads overwritten", overwritten, test.rounds), "0");
}

// The check would notice.
void check_slots_canary(Report& report, JpegDecoders& decoders, bool sanitized) {
  const SlotTest test{sanitized ? 4 : 12, 1, 60'000'000, false};
  const int overwritten = rounds_overwritten(decoders, test, sanitized);
  report.row("decoding", "a slot that is written again too early is noticed",
             overwritten > 0 ? Verdict::passed : Verdict::failed,
             fmt::format("{} of {} reads overwritten", overwritten, test.rounds), "more than 0");
}

}  // namespace

void check_decoding(Report& report, const Options& options) {
  std::string problem;
  for (std::size_t i = 0; i < gpu::kJpegWays; ++i) {
    const auto way = static_cast<JpegWay>(i);
    JpegDecoders::Options only_this = decoders_of(gpu::only(way));
    if (options.sanitized) only_this.cpu_threads = std::min(only_this.cpu_threads, 2u);
    if (options.sanitized)
      only_this.host_huffman_threads = std::min(only_this.host_huffman_threads, 2u);
    const auto decoders = JpegDecoders::open(only_this, problem);
    if (!decoders) {
      report.row("decoding", name_of(way), Verdict::not_run, problem);
      continue;
    }
    check_pixels(report, *decoders, way);
    check_bad(report, *decoders, name_of(way), way == JpegWay::cpu);
    check_slots(report, *decoders, way, options.sanitized);
    if (way == JpegWay::cpu) check_slots_canary(report, *decoders, options.sanitized);
  }
  const auto decoders = JpegDecoders::open(decoders_of(gpu::kEveryJpegWay), problem);
  if (!decoders) return report.row("decoding", "all ways", Verdict::not_run, problem);
  for (const std::string& note : decoders->notes())
    report.row("decoding", "what is there", Verdict::measured, note);
  check_bad(report, *decoders, "all ways", true);
  if (!options.sanitized) measure_decoding(report, options);
}

}  // namespace batchflow::gpu_check
