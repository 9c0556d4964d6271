// Each kernel beside its reference on fresh random inputs, and the rate at which it moves bytes.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <random>

#include "kernels/importance.h"
#include "kernels/picture_batch.h"
#include "kernels/rows.h"
#include "tools/gpu_check/device_memory.h"
#include "tools/gpu_check/pattern.h"
#include "tools/gpu_check/report.h"

namespace batchflow::gpu_check {
namespace {

using namespace kernels;

std::uint64_t fresh_seed() {
  return std::random_device{}() * std::uint64_t{0x9e3779b97f4a7c15} + std::random_device{}();
}

class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : random_(seed) {}
  int between(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }
  double unit() { return std::uniform_real_distribution<double>(0, 1)(random_); }
  bool coin() { return between(0, 1) == 1; }
  std::vector<std::uint8_t> bytes(std::size_t count) {
    std::vector<std::uint8_t> made((count + 7) / 8 * 8);
    for (std::size_t i = 0; i < made.size(); i += 8) {
      const std::uint64_t word = random_();
      std::memcpy(&made[i], &word, 8);
    }
    made.resize(count);
    return made;
  }
  std::mt19937_64& engine() { return random_; }

 private:
  std::mt19937_64 random_;
};

template <class T>
std::size_t different(const std::vector<T>& a, const std::vector<T>& b) {
  std::size_t count = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    count += std::memcmp(&a[i], &b[i], sizeof(T)) != 0;
  return count;
}

void equal_row(Report& report, std::string_view what, std::size_t different, std::size_t of) {
  report.row("kernels", what, different == 0 && of > 0 ? Verdict::passed : Verdict::failed,
             fmt::format("{} of {} bytes differ", different, of), "0");
}

// ---------------------------------------------------------------------------------- pictures ----

enum class Kind { crops, scalings, jitters, great_scales };

// Pictures in one piece of memory, with tasks for the CPU's and the GPU's addresses.
struct PictureSet {
  std::vector<std::uint8_t> pixels;
  std::vector<PictureTask> tasks;  // `pixels` and `out` are offsets
  std::vector<std::size_t> at, to;
  std::size_t out_bytes = 0;
  PictureLimits limits;

  void add(PictureTask task, Element element, Numbers& numbers, std::size_t padding) {
    const std::size_t bytes = task.stride * static_cast<std::size_t>(task.extent.height);
    pixels.resize(pixels.size() + padding);
    at.push_back(pixels.size());
    const std::vector<std::uint8_t> made = numbers.bytes(bytes);
    pixels.insert(pixels.end(), made.begin(), made.end());
    pixels.resize(pixels.size() + kReadSlack);
    to.push_back(out_bytes);
    out_bytes += bytes_of(element) * kChannels *
                 static_cast<std::size_t>(task.scaling.window.width) *
                 static_cast<std::size_t>(task.scaling.window.height);
    limits.add(task);
    tasks.push_back(task);
  }
  std::vector<PictureTask> placed(const std::uint8_t* from, std::byte* out) const {
    std::vector<PictureTask> placed = tasks;
    for (std::size_t i = 0; i < placed.size(); ++i) {
      placed[i].pixels = from + at[i];
      placed[i].out = out + to[i];
    }
    return placed;
  }
};

PictureTask random_task(Kind kind, Numbers& numbers) {
  PictureTask task;
  const int most = kind == Kind::great_scales ? 3000 : 400;
  task.extent = {numbers.between(1, most),
                 numbers.between(1, kind == Kind::great_scales ? 900 : most)};
  if (numbers.between(0, 9) == 0) task.extent = {1, 1};
  task.stride = static_cast<std::size_t>(task.extent.width) * kChannels +
                static_cast<std::size_t>(numbers.between(0, 7));
  Scaling& s = task.scaling;
  s.from.width = numbers.between(1, task.extent.width);
  s.from.height = numbers.between(1, task.extent.height);
  s.from.x = numbers.between(0, task.extent.width - s.from.width);
  s.from.y = numbers.between(0, task.extent.height - s.from.height);
  s.to = kind == Kind::crops          ? s.from.extent()
         : kind == Kind::great_scales ? Extent2{numbers.between(1, 9), numbers.between(1, 5)}
                                      : Extent2{numbers.between(1, 300), numbers.between(1, 90)};
  if (kind == Kind::jitters && numbers.coin()) s.to = {224, 224};
  s.window.width = numbers.between(1, s.to.width);
  s.window.height = numbers.between(1, s.to.height);
  if (numbers.coin()) s.window = whole(s.to);
  s.window.x = numbers.between(0, s.to.width - s.window.width);
  s.window.y = numbers.between(0, s.to.height - s.window.height);
  s.flip = numbers.coin();
  if (kind == Kind::jitters) {
    std::shuffle(std::begin(task.jitter.order), std::end(task.jitter.order), numbers.engine());
    for (float& factor : task.jitter.factor)
      if (numbers.between(0, 3) > 0) factor = static_cast<float>(0.2 + 1.6 * numbers.unit());
    task.jitter.factor[3] = static_cast<float>(numbers.unit() - 0.5);
  }
  return task;
}

std::optional<Normalisation> imagenet(Element element) {
  if (element == Element::u8) return std::nullopt;
  return Normalisation{{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};
}

std::size_t differs(const PictureSet& set, Element element, bool planes, const FinishTable& table,
                    std::size_t out_padding) {
  DeviceMemory<std::uint8_t> pixels(set.pixels);
  DeviceMemory<std::byte> out(set.out_bytes + out_padding);
  std::vector<std::byte> expected(set.out_bytes + out_padding, std::byte{0xa5});
  const std::vector<PictureTask> here =
      set.placed(set.pixels.data(), expected.data() + out_padding);
  DeviceMemory<PictureTask> there(set.placed(pixels.get(), out.get() + out_padding));
  DeviceMemory<FinishTable> table_there(std::vector<FinishTable>{table});
  const auto count = static_cast<std::uint32_t>(set.tasks.size());
  DeviceMemory<std::byte> scratch(scratch_bytes(count, set.limits));
  PictureBatch batch{here.data(), count, set.limits, element, planes, &table, nullptr};
  on_cpu::prepare_pictures(batch);
  batch.tasks = there.get();
  batch.table = table_there.get();
  batch.scratch = scratch.get();
  on_gpu::prepare_pictures(batch, nullptr);
  BF_CUDA(cudaDeviceSynchronize());
  return different(out.values(), expected);
}

void check_pictures(Report& report, const Options& options, Numbers& numbers) {
  const int count = options.sanitized ? 6 : 60;
  for (const Kind kind : {Kind::crops, Kind::scalings, Kind::jitters, Kind::great_scales}) {
    std::size_t all = 0, wrong = 0;
    for (std::size_t e = 0; e < 4; ++e) {
      for (const bool planes : {true, false}) {
        if (options.sanitized && planes == (e % 2 == 0)) continue;
        const auto element = static_cast<Element>(e);
        PictureSet set;
        for (int i = 0; i < count; ++i)
          set.add(random_task(kind, numbers), element, numbers, numbers.between(0, 5));
        FinishTable table = finish_table(element, imagenet(element));
        if (numbers.coin()) table.by = FinishTable::By::table;
        wrong += differs(set, element, planes, table,
                         bytes_of(element) * static_cast<std::size_t>(numbers.between(0, 3)));
        all += set.out_bytes;
      }
    }
    constexpr std::string_view titles[] = {
        "pictures: crop, flip, normalise, cast, layout", "pictures: and scaled, antialiased",
        "pictures: and colours changed", "pictures: scaled by up to 3000"};
    equal_row(report, titles[static_cast<std::size_t>(kind)], wrong, all);
  }
  on_gpu::prepare_pictures({}, nullptr);
  BF_CUDA(cudaDeviceSynchronize());
  report.row("kernels", "pictures: an empty batch", Verdict::passed, "nothing done", "");
}

// ------------------------------------------------------------------------------ rows, tokens ----

void check_rows(Report& report, const Options& options, Numbers& numbers) {
  std::size_t wrong = 0, all = 0;
  for (const std::uint64_t bytes : {1, 7, 12, 64, 4096, 150528}) {
    const std::uint64_t rows = 500;
    const auto count = static_cast<std::size_t>(options.sanitized ? 20 : 700);
    std::vector<std::byte> cache(rows * bytes);
    const std::vector<std::uint8_t> values = numbers.bytes(cache.size());
    std::memcpy(cache.data(), values.data(), cache.size());
    std::vector<std::uint64_t> index(count);
    for (std::uint64_t& one : index) one = static_cast<std::uint64_t>(numbers.between(0, 499));
    std::vector<std::byte> expected(count * bytes);
    DeviceMemory<std::byte> cache_there(cache), out(expected.size());
    DeviceMemory<std::uint64_t> index_there(index);
    on_cpu::gather_rows({cache.data(), bytes, index.data(), count, expected.data()});
    on_gpu::gather_rows({cache_there.get(), bytes, index_there.get(), count, out.get()}, nullptr);
    wrong += different(out.values(), expected);
    all += expected.size();
  }
  equal_row(report, "rows gathered out of a cache", wrong, all);
}

void check_tokens(Report& report, const Options& options, Numbers& numbers) {
  std::size_t wrong_packed = 0, wrong_fitted = 0, packed = 0, fitted = 0;
  for (const Token from : {Token::u16, Token::i32, Token::i64}) {
    for (const Token to : {Token::u16, Token::i32, Token::i64}) {
      const std::uint64_t count = options.sanitized ? 10 : 300, length = 113;
      std::vector<std::int64_t> offsets = {0};
      for (std::uint64_t i = 0; i < count; ++i)
        offsets.push_back(offsets.back() +
                          (numbers.between(0, 4) == 0 ? 0 : numbers.between(1, 300)));
      const auto total = static_cast<std::size_t>(offsets.back());
      const std::vector<std::uint8_t> tokens = numbers.bytes(total * bytes_of(from) + 8);
      DeviceMemory<std::uint8_t> tokens_there(tokens);
      // The sequences lie in the reverse order.
      std::vector<const void*> starts, starts_there;
      std::size_t end = total;
      for (std::uint64_t i = 0; i < count; ++i) {
        end -= static_cast<std::size_t>(offsets[i + 1] - offsets[i]);
        starts.push_back(tokens.data() + end * bytes_of(from));
        starts_there.push_back(tokens_there.get() + end * bytes_of(from));
      }
      DeviceMemory<const void*> starts_on_gpu(starts_there);
      DeviceMemory<std::int64_t> offsets_on_gpu(offsets);
      const Sequences here{from, starts.data(), offsets.data(), count};
      const Sequences there{from, starts_on_gpu.get(), offsets_on_gpu.get(), count};
      std::vector<std::uint8_t> expected(total * bytes_of(to));
      DeviceMemory<std::uint8_t> out(expected.size());
      on_cpu::pack_tokens({here, to, expected.data()});
      on_gpu::pack_tokens({there, to, out.get()}, nullptr);
      wrong_packed += different(out.values(), expected);
      packed += expected.size();
      std::vector<std::uint8_t> rows(count * length * bytes_of(to));
      DeviceMemory<std::uint8_t> rows_out(rows.size());
      on_cpu::fit_tokens({here, to, length, -7, rows.data()});
      on_gpu::fit_tokens({there, to, length, -7, rows_out.get()}, nullptr);
      wrong_fitted += different(rows_out.values(), rows);
      fitted += rows.size();
    }
  }
  equal_row(report, "tokens packed", wrong_packed, packed);
  equal_row(report, "tokens cut or padded", wrong_fitted, fitted);
}

// -------------------------------------------------------------------------------- importance ----

std::vector<float> random_scores(std::uint64_t count, Numbers& numbers) {
  std::vector<float> scores(count);
  const int kind = numbers.between(0, 3);
  std::normal_distribution<float> normal(0.5f, 2.0f);
  for (float& score : scores) {
    score = kind == 0   ? static_cast<float>(numbers.between(-3, 3))  // many are equal
            : kind == 1 ? std::exp(normal(numbers.engine()))
                        : normal(numbers.engine());
    if (kind == 3 && numbers.between(0, 20) == 0) score = NAN;
    if (kind == 3 && numbers.between(0, 20) == 0) score = -0.0f;
  }
  return scores;
}

void check_importance(Report& report, const Options& options, Numbers& numbers) {
  std::size_t wrong = 0, wrong_scores = 0, wrong_draws = 0, all = 0, drawn = 0;
  std::vector<std::uint64_t> sizes = {1, 2, 3, 4, 5, 6, 7, 97, 1000, 1001, 1002, 1003};
  if (!options.sanitized) sizes.insert(sizes.end(), {100'000, 1'000'003, 3'000'000});
  for (const std::uint64_t count : sizes) {
    for (int i = 0; i < 4; ++i) {
      const std::vector<float> scores = random_scores(count, numbers);
      DeviceMemory<float> scores_there(scores), normalised(count);
      DeviceMemory<ScoreStatistics> statistics_there(1);
      DeviceMemory<std::byte> scratch(statistics_scratch_bytes());
      std::vector<ScoreStatistics> statistics(1);
      on_cpu::score_statistics(scores.data(), count, statistics.data());
      on_gpu::score_statistics(scores_there.get(), count, statistics_there.get(), scratch.get(),
                               nullptr);
      wrong += different(statistics_there.values(), statistics);
      std::vector<float> expected(count);
      on_cpu::normalise_scores(scores.data(), count, statistics.data(), expected.data());
      on_gpu::normalise_scores(scores_there.get(), count, statistics_there.get(), normalised.get(),
                               nullptr);
      wrong_scores += different(normalised.values(), expected);
      all += count;
      std::vector<std::uint32_t> weights(count);
      for (std::uint32_t& weight : weights)
        weight = numbers.coin() ? 0 : static_cast<std::uint32_t>(numbers.engine()());
      weights[static_cast<std::size_t>(numbers.between(0, static_cast<int>(count) - 1))] = 77;
      Draws draws{static_cast<std::uint64_t>(numbers.between(1, 2'000'000)), numbers.engine()()};
      if (options.sanitized) draws.count = draws.count % 1000 + 1;
      std::vector<std::uint64_t> samples(draws.count);
      DeviceMemory<std::uint32_t> weights_there(weights);
      DeviceMemory<std::uint64_t> out(draws.count);
      DeviceMemory<std::byte> sums(draw_scratch_bytes(count));
      on_cpu::draw_by_weight(weights.data(), count, draws, samples.data());
      on_gpu::draw_by_weight(weights_there.get(), count, draws, out.get(), sums.get(), nullptr);
      wrong_draws += different(out.values(), samples);
      drawn += draws.count;
    }
  }
  equal_row(report, "statistics of scores", wrong, sizes.size() * 4);
  equal_row(report, "normalised scores", wrong_scores, all);
  equal_row(report, "draws by weight", wrong_draws, drawn);
}

// ------------------------------------------------------------------------------------- large ----

void check_large(Report& report) {
  // One picture of 2.2 thousand million values, cropped to the whole and mirrored.
  const int side = 27'000;
  const std::uint64_t bytes = std::uint64_t{3} * side * side;
  DeviceMemory<std::uint8_t> in(bytes + kReadSlack), out(bytes);
  make_bytes(in.get(), bytes);
  PictureTask task{in.get(),     std::size_t{3} * side,
                   {side, side}, {{0, 0, side, side}, {side, side}, {0, 0, side, side}, true},
                   {},           out.get()};
  PictureLimits limits;
  limits.add(task);
  DeviceMemory<PictureTask> tasks(std::vector<PictureTask>{task});
  DeviceMemory<FinishTable> table(std::vector<FinishTable>{finish_table(Element::u8, {})});
  DeviceMemory<unsigned long long> wrong(std::vector<unsigned long long>{0});
  PictureBatch batch{tasks.get(), 1, limits, Element::u8, true, table.get(), nullptr};
  std::size_t sum = 0;
  for (const bool scales : {false, true}) {  // by the kernel for crops, and by that for scalings
    batch.limits.scales = scales;
    on_gpu::prepare_pictures(batch, nullptr);
    count_wrong(out.get(), side, side, wrong.get());
    sum += wrong.values()[0];
    BF_CUDA(cudaMemset(out.get(), 0xa5, bytes));
  }
  equal_row(report, "pictures: more than 2^31 values", sum, 2 * bytes);
}

// ------------------------------------------------------------------------------------- rates ----

std::string spread(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  return fmt::format("{:.3f} ms ({:.3f} to {:.3f})", median, times[times.size() / 10],
                     times[times.size() * 9 / 10]);
}
double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// GB/s, of bytes read and bytes written.
double copy_rate(Stopwatch& watch) {
  const std::size_t bytes = std::size_t{4} << 30;
  DeviceMemory<std::byte> from(bytes), to(bytes);
  const auto times = watch.times(15, [&](int) {
    BF_CUDA(cudaMemcpyAsync(to.get(), from.get(), bytes, cudaMemcpyDeviceToDevice, watch.stream()));
  });
  return 2.0 * static_cast<double>(bytes) / median(times) / 1e6;
}

void rate_row(Report& report, std::string_view what, double bytes, const std::vector<double>& times,
              double copy, std::string_view more = "") {
  const double rate = bytes / median(times) / 1e6;
  report.row("kernels", what, Verdict::measured,
             fmt::format("{:.0f} GB/s, {:.1f} % of a copy; {}{}", rate, 100 * rate / copy,
                         spread(times), more),
             "90 %");
}

struct PictureRate {
  std::string_view what;
  Kind kind;
  Extent2 extent;
  Element element;
  bool planes;
};

void picture_rate(Report& report, const PictureRate& rate, Stopwatch& watch, double copy,
                  Numbers& numbers) {
  const std::uint32_t count = 256;
  const int sets = 8;  // so that none is still in a cache when it comes again
  std::vector<PictureTask> tasks;
  PictureLimits limits;
  const std::size_t stride = static_cast<std::size_t>(rate.extent.width) * kChannels;
  const std::size_t slot =
      (stride * static_cast<std::size_t>(rate.extent.height) + kReadSlack + 255) / 256 * 256;
  const std::size_t out_slot = bytes_of(rate.element) * 224 * 224 * kChannels;
  DeviceMemory<std::uint8_t> pixels(slot * count * sets);
  make_bytes(pixels.get(), slot * count * sets);
  DeviceMemory<std::byte> out(out_slot * count * sets);
  double bytes = 0;
  for (std::uint32_t i = 0; i < count * sets; ++i) {
    PictureTask task;
    task.pixels = pixels.get() + i * slot;
    task.stride = stride;
    task.extent = rate.extent;
    Scaling& s = task.scaling;
    s.to = {224, 224};
    s.window = whole(s.to);
    s.from = {0, 0, 224, 224};
    if (rate.kind != Kind::crops) {  // as torchvision draws it, but for its tries
      const double area = (0.08 + 0.92 * numbers.unit()) * rate.extent.width * rate.extent.height;
      const double ratio = std::exp((2 * numbers.unit() - 1) * std::log(4.0 / 3));
      s.from.width = std::clamp(static_cast<int>(std::sqrt(area * ratio)), 1, rate.extent.width);
      s.from.height = std::clamp(static_cast<int>(std::sqrt(area / ratio)), 1, rate.extent.height);
    }
    s.from.x = numbers.between(0, rate.extent.width - s.from.width);
    s.from.y = numbers.between(0, rate.extent.height - s.from.height);
    s.flip = numbers.coin();
    if (rate.kind == Kind::jitters)
      for (std::size_t k = 0; k < kColourChanges; ++k)
        task.jitter.factor[k] = k == 3 ? 0.05f : static_cast<float>(0.6 + 0.8 * numbers.unit());
    task.out = out.get() + i * out_slot;
    bytes += static_cast<double>(s.from.width) * s.from.height * kChannels +
             static_cast<double>(out_slot);
    limits.add(task);
    tasks.push_back(task);
  }
  DeviceMemory<PictureTask> there(tasks);
  DeviceMemory<FinishTable> table(
      std::vector<FinishTable>{finish_table(rate.element, imagenet(rate.element))});
  DeviceMemory<std::byte> scratch(scratch_bytes(count, limits));
  // All of them, one behind the other: the time of an event is no part of a batch's.
  const auto times = watch.times(20, [&](int) {
    for (int set = 0; set < sets; ++set)
      on_gpu::prepare_pictures({there.get() + set * static_cast<int>(count), count, limits,
                                rate.element, rate.planes, table.get(), scratch.get()},
                               watch.stream());
  });
  rate_row(report, rate.what, bytes, times, copy,
           fmt::format(" for 8 batches of 256; {:.2f} million pictures/s",
                       sets * count / median(times) / 1e3));
}

void measure(Report& report, Numbers& numbers) {
  Stopwatch watch;
  const double copy = copy_rate(watch);
  report.row("kernels", "copy within the GPU's memory, read and written", Verdict::measured,
             fmt::format("{:.0f} GB/s", copy), "");
  for (const PictureRate& rate : {
           PictureRate{"crop 224 of 256 x 256, flip, normalise: f16 planes",
                       Kind::crops,
                       {256, 256},
                       Element::f16,
                       true},
           PictureRate{"the same: f32 planes", Kind::crops, {256, 256}, Element::f32, true},
           PictureRate{"the same: u8 planes", Kind::crops, {256, 256}, Element::u8, true},
           PictureRate{
               "the same: f16 beside each other", Kind::crops, {256, 256}, Element::f16, false},
           PictureRate{"random resized crop 224 of 500 x 375, flip, normalise: f16 planes",
                       Kind::scalings,
                       {500, 375},
                       Element::f16,
                       true},
           PictureRate{"the same: f32 planes", Kind::scalings, {500, 375}, Element::f32, true},
           PictureRate{"the same: u8 planes", Kind::scalings, {500, 375}, Element::u8, true},
           PictureRate{"the same of 1024 x 768: f16 planes",
                       Kind::scalings,
                       {1024, 768},
                       Element::f16,
                       true},
           PictureRate{"the same of 500 x 375 and four changes of colour: f16 planes",
                       Kind::jitters,
                       {500, 375},
                       Element::f16,
                       true},
       })
    picture_rate(report, rate, watch, copy, numbers);

  for (const std::uint64_t bytes : {std::uint64_t{4096}, std::uint64_t{150528}}) {
    const std::uint64_t rows = (std::uint64_t{8} << 30) / bytes,
                        count = (std::uint64_t{1} << 30) / bytes;
    std::vector<std::uint64_t> index(count * 4);
    for (std::uint64_t& one : index) one = numbers.engine()() % rows;
    DeviceMemory<std::byte> cache(rows * bytes), out(count * bytes);
    DeviceMemory<std::uint64_t> index_there(index);
    const auto times = watch.times(20, [&](int run) {
      on_gpu::gather_rows(
          {cache.get(), bytes, index_there.get() + static_cast<std::uint64_t>(run % 4) * count,
           count, out.get()},
          watch.stream());
    });
    rate_row(report, fmt::format("rows of {} bytes gathered", bytes),
             2.0 * static_cast<double>(count * bytes), times, copy);
  }
  {
    const std::uint64_t count = 65'536;
    std::vector<std::int64_t> offsets = {0};
    for (std::uint64_t i = 0; i < count; ++i)
      offsets.push_back(offsets.back() + numbers.between(100, 4000));
    const auto total = static_cast<std::size_t>(offsets.back());
    DeviceMemory<std::uint16_t> tokens(total);
    DeviceMemory<std::int32_t> out(std::max<std::size_t>(total, count * 2048));
    std::vector<const void*> starts;
    for (std::uint64_t i = 0; i < count; ++i) starts.push_back(tokens.get() + offsets[i]);
    std::shuffle(starts.begin(), starts.end() - 1, numbers.engine());
    std::vector<const void*> fitting = starts;
    for (std::uint64_t i = 0; i < count; ++i)
      fitting[i] =
          tokens.get() +
          std::min<std::int64_t>(reinterpret_cast<const std::uint16_t*>(starts[i]) - tokens.get(),
                                 static_cast<std::int64_t>(total) - 4000);
    DeviceMemory<const void*> starts_there(fitting);
    DeviceMemory<std::int64_t> offsets_there(offsets);
    const Sequences from{Token::u16, starts_there.get(), offsets_there.get(), count};
    rate_row(report, "tokens packed, 16 to 32 bits", 6.0 * static_cast<double>(total),
             watch.times(20,
                         [&](int) {
                           on_gpu::pack_tokens({from, Token::i32, out.get()}, watch.stream());
                         }),
             copy);
    rate_row(
        report, "tokens cut or padded to 2048, 16 to 32 bits",
        (2.0 * 0.75 + 4.0) * static_cast<double>(count) * 2048,
        watch.times(20,
                    [&](int) {
                      on_gpu::fit_tokens({from, Token::i32, 2048, 0, out.get()}, watch.stream());
                    }),
        copy);
  }
  {
    const std::uint64_t count = 10'000'000;
    std::vector<float> scores(count);
    std::normal_distribution<float> normal(0.5f, 2.0f);
    for (float& score : scores) score = std::exp(normal(numbers.engine()));
    std::vector<std::uint32_t> weights(count);
    for (std::uint32_t& weight : weights)
      weight = static_cast<std::uint32_t>(numbers.engine()() >> 40);
    DeviceMemory<float> there(scores), normalised(count);
    DeviceMemory<std::uint32_t> weights_there(weights);
    DeviceMemory<std::uint64_t> out(count);
    DeviceMemory<ScoreStatistics> statistics(1);
    DeviceMemory<std::byte> scratch(statistics_scratch_bytes()), sums(draw_scratch_bytes(count));
    const Draws draws{count, numbers.engine()()};
    const auto row = [&](std::string_view what, const std::vector<double>& times, bool bound) {
      const bool slow = bound && median(times) >= 2;
      report.row("kernels", what, slow ? Verdict::failed : Verdict::measured, spread(times),
                 bound ? "under 2 ms" : "");
    };
    row("median and quartiles of 10^7 scores",
        watch.times(20,
                    [&](int) {
                      on_gpu::score_statistics(there.get(), count, statistics.get(), scratch.get(),
                                               watch.stream());
                    }),
        false);
    row("10^7 scores normalised",
        watch.times(20,
                    [&](int) {
                      on_gpu::normalise_scores(there.get(), count, statistics.get(),
                                               normalised.get(), watch.stream());
                    }),
        false);
    row("10^7 draws by weight",
        watch.times(20,
                    [&](int) {
                      on_gpu::draw_by_weight(weights_there.get(), count, draws, out.get(),
                                             sums.get(), watch.stream());
                    }),
        false);
    row("all three",
        watch.times(20,
                    [&](int) {
                      on_gpu::score_statistics(there.get(), count, statistics.get(), scratch.get(),
                                               watch.stream());
                      on_gpu::normalise_scores(there.get(), count, statistics.get(),
                                               normalised.get(), watch.stream());
                      on_gpu::draw_by_weight(weights_there.get(), count, draws, out.get(),
                                             sums.get(), watch.stream());
                    }),
        true);
  }
}

}  // namespace

void check_kernels(Report& report, const Options& options) {
  const std::uint64_t seed = fresh_seed();
  report.row("kernels", "seed of the inputs", Verdict::measured, fmt::format("{}", seed), "");
  Numbers numbers(seed);
  check_pictures(report, options, numbers);
  check_rows(report, options, numbers);
  check_tokens(report, options, numbers);
  check_importance(report, options, numbers);
  if (options.sanitized) return;
  check_large(report);
  measure(report, numbers);
}

}  // namespace batchflow::gpu_check
