// How fast pictures are decoded, in each way and by mixtures, and training-ready tensors.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "core/base/random.h"
#include "kernels/picture_batch.h"
#include "runtime/gpu/cuda_slot_events.h"
#include "tools/gpu_check/decode_tools.h"

namespace batchflow::gpu_check {
namespace {

using Clock = std::chrono::steady_clock;
using gpu::JpegDecoders;
using gpu::JpegPicture;
using gpu::JpegResult;
using gpu::JpegStatus;
using gpu::JpegWay;

constexpr std::size_t kBatch = 256;
constexpr std::size_t kInFlight = 3;  // batches
constexpr int kSide = 224;
constexpr std::size_t kBytesMost = std::size_t{1} << 30;  // of pictures that are loaded

std::vector<File> load(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    if (at->path().extension() == ".jpg" || at->path().extension() == ".jpeg" ||
        at->path().extension() == ".JPEG")
      paths.push_back(at->path());
  std::sort(paths.begin(), paths.end());
  std::vector<File> files;
  std::size_t bytes = 0;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary | std::ios::ate);
    File file(static_cast<std::size_t>(std::max<std::streamoff>(0, in.tellg())));
    in.seekg(0);
    in.read(reinterpret_cast<char*>(file.data()), static_cast<std::streamsize>(file.size()));
    bytes += file.size();
    files.push_back(std::move(file));
    if (bytes > kBytesMost) break;
  }
  return files;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double percentile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(static_cast<double>(values.size() - 1) * part)];
}

struct Rate {
  double pictures_a_second = 0, cpu_us_each = 0;
  double p50_ms = 0, p99_ms = 0;  // of a batch, from the call until it is there
  std::size_t batches = 0, not_decoded = 0;

  std::string text() const {
    return fmt::format(
        "{:.0f} pictures/s; a batch of {}: p50 {:.1f} ms, p99 {:.1f} ms ({} batches); "
        "{:.0f} us of CPU a picture{}",
        pictures_a_second, kBatch, p50_ms, p99_ms, batches, cpu_us_each,
        not_decoded ? fmt::format("; {} not decoded", not_decoded) : "");
  }
};

// What becomes of a batch that is decoded: nothing, or tensors for training.
class Consumer {
 public:
  virtual ~Consumer() = default;
  virtual void use(const std::vector<JpegPicture>& pictures,
                   const std::vector<JpegResult>& results) = 0;
  virtual kernels::Stream stream() const = 0;  // that reads the slots; null: none
  virtual void wait() {}
};

class NoConsumer final : public Consumer {
 public:
  void use(const std::vector<JpegPicture>&, const std::vector<JpegResult>&) override {}
  kernels::Stream stream() const override { return nullptr; }
};

// Random parts scaled to 224 x 224, half of them mirrored, normalised, half floats in planes: what
// torchvision's RandomResizedCrop, RandomHorizontalFlip and Normalize make.
class Tensors final : public Consumer {
 public:
  Tensors() : random_(1) {
    for (Side& side : sides_) {
      BF_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&side.tasks),
                            kBatch * sizeof(kernels::PictureTask), cudaHostAllocDefault));
      BF_CUDA(cudaEventCreateWithFlags(&side.done, cudaEventDisableTiming | cudaEventBlockingSync));
    }
  }
  ~Tensors() override {
    cudaStreamSynchronize(watch_.stream());
    for (Side& side : sides_) {
      cudaFreeHost(side.tasks);
      cudaEventDestroy(side.done);
    }
  }

  void use(const std::vector<JpegPicture>& pictures,
           const std::vector<JpegResult>& results) override {
    Side& side = sides_[next_];
    next_ = (next_ + 1) % std::size(sides_);
    BF_CUDA(cudaEventSynchronize(side.done));  // its tasks and its tensors are used again
    kernels::PictureLimits limits;
    std::uint32_t count = 0;
    for (std::size_t i = 0; i < pictures.size(); ++i) {
      if (results[i].status != JpegStatus::decoded) continue;
      kernels::PictureTask task;
      task.pixels = pictures[i].pixels;
      task.stride = results[i].stride;
      task.extent = results[i].extent;
      task.scaling = {
          random_part(task.extent), {kSide, kSide}, {0, 0, kSide, kSide}, random_.below(2) == 1};
      task.out = side.out.get() + std::size_t{count} * kOutBytes;
      limits.add(task);
      side.tasks[count++] = task;
    }
    BF_CUDA(cudaMemcpyAsync(side.there.get(), side.tasks, count * sizeof(kernels::PictureTask),
                            cudaMemcpyHostToDevice, watch_.stream()));
    const std::size_t scratch = kernels::scratch_bytes(count, limits);
    if (scratch > scratch_bytes_) {
      scratch_ = std::make_unique<DeviceMemory<std::byte>>(2 * scratch);
      scratch_bytes_ = 2 * scratch;
    }
    kernels::on_gpu::prepare_pictures({side.there.get(), count, limits, kernels::Element::f16, true,
                                       table_.get(), scratch_ ? scratch_->get() : nullptr},
                                      watch_.stream());
    BF_CUDA(cudaEventRecord(side.done, watch_.stream()));
  }
  kernels::Stream stream() const override { return watch_.stream(); }
  void wait() override { BF_CUDA(cudaStreamSynchronize(watch_.stream())); }

 private:
  static constexpr std::size_t kOutBytes = std::size_t{3} * kSide * kSide * 2;
  struct Side {
    kernels::PictureTask* tasks = nullptr;
    DeviceMemory<kernels::PictureTask> there{kBatch};
    DeviceMemory<std::uint8_t> out{kBatch * kOutBytes};
    cudaEvent_t done = nullptr;
  };

  kernels::Box random_part(kernels::Extent2 extent) {
    const double area = extent.width * static_cast<double>(extent.height);
    for (int attempt = 0; attempt < 10; ++attempt) {
      const double wanted = area * (0.08 + 0.92 * unit());
      const double ratio = std::exp(std::log(3.0 / 4) + unit() * std::log(16.0 / 9));
      const int width = static_cast<int>(std::lround(std::sqrt(wanted * ratio)));
      const int height = static_cast<int>(std::lround(std::sqrt(wanted / ratio)));
      if (width < 1 || height < 1 || width > extent.width || height > extent.height) continue;
      const auto within = [&](int room) {
        return static_cast<int>(random_.below(static_cast<std::uint64_t>(room) + 1));
      };
      const int x = within(extent.width - width), y = within(extent.height - height);
      return {x, y, width, height};
    }
    return kernels::whole(extent);
  }
  double unit() { return static_cast<double>(random_.below(1u << 30)) / (1u << 30); }

  Random random_;
  const Stopwatch watch_;  // for its stream
  Side sides_[2];
  std::size_t next_ = 0;
  DeviceMemory<kernels::FinishTable> table_{std::vector<kernels::FinishTable>{kernels::finish_table(
      kernels::Element::f16,
      kernels::Normalisation{{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}})}};
  std::unique_ptr<DeviceMemory<std::byte>> scratch_;
  std::size_t scratch_bytes_ = 0;
};

// Batches in flight, each in a slot of its own; a slot is used again when the host has seen that
// its readers are done.
class Run {
 public:
  Run(const std::vector<File>& files, JpegDecoders& decoders, Consumer& consumer)
      : files_(files),
        decoders_(decoders),
        consumer_(consumer),
        events_(gpu::cuda_slot_events(kSlots)),
        ring_(kSlots, *events_) {
    const std::size_t each = slot_bytes_most(files);
    for (std::size_t i = 0; i < kSlots; ++i)
      slots_.push_back(std::make_unique<BatchSlot>(kBatch, each));
  }

  Rate measure(double seconds) {
    run(seconds / 2);  // caches, buffers and what is measured of each way
    return run(seconds);
  }

 private:
  // One more than is decoded at once, and one that is read.
  static constexpr std::size_t kSlots = kInFlight + 2;
  struct Batch {
    std::size_t slot = 0;
    std::vector<JpegPicture> pictures;
    std::vector<JpegResult> results;
    Clock::time_point begin, end;
    bool done = false;
  };

  bool start() {
    const auto slot = ring_.take();
    if (!slot) return false;
    auto batch = std::make_unique<Batch>();
    batch->slot = *slot;
    std::vector<const File*> files;
    for (std::size_t i = 0; i < kBatch; ++i) files.push_back(&files_[next_++ % files_.size()]);
    batch->pictures = slots_[*slot]->pictures(files);
    batch->results.resize(kBatch);
    batch->begin = Clock::now();
    Batch* const started = batch.get();
    flying_.push_back(std::move(batch));
    decoders_.decode(started->pictures, started->results, [this, started] {
      std::lock_guard lock(mutex_);
      started->end = Clock::now();
      started->done = true;
      changed_.notify_one();
    });
    return true;
  }

  // The oldest batch.
  void finish(Rate& rate, std::vector<double>& took) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return flying_.front()->done; });
    }
    const std::unique_ptr<Batch> batch = std::move(flying_.front());
    flying_.pop_front();
    for (const JpegResult& result : batch->results)
      rate.not_decoded += result.status != JpegStatus::decoded;
    took.push_back(std::chrono::duration<double, std::milli>(batch->end - batch->begin).count());
    consumer_.use(batch->pictures, batch->results);
    if (consumer_.stream())
      ring_.release(batch->slot, consumer_.stream());
    else
      ring_.release_unread(batch->slot);
  }

  Rate run(double seconds) {
    Rate rate;
    std::vector<double> took;
    const auto begin = Clock::now();
    const double cpu = cpu_seconds();
    const auto since = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
    while (since() < seconds || rate.batches < 4) {
      while (flying_.size() < kInFlight && start()) {
      }
      if (flying_.empty()) {  // all slots are being read
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        continue;
      }
      finish(rate, took);
      ++rate.batches;
    }
    while (!flying_.empty()) {
      finish(rate, took);
      ++rate.batches;
    }
    consumer_.wait();
    const auto pictures = static_cast<double>(rate.batches * kBatch);
    rate.pictures_a_second = pictures / since();
    rate.cpu_us_each = (cpu_seconds() - cpu) / pictures * 1e6;
    rate.p50_ms = percentile(took, 0.5);
    rate.p99_ms = percentile(took, 0.99);
    return rate;
  }

  const std::vector<File>& files_;
  JpegDecoders& decoders_;
  Consumer& consumer_;
  const std::unique_ptr<gpu::SlotEvents> events_;
  gpu::SlotRing ring_;
  std::vector<std::unique_ptr<BatchSlot>> slots_;
  std::size_t next_ = 0;
  std::deque<std::unique_ptr<Batch>> flying_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

std::string shares(const JpegDecoders& decoders) {
  std::string text;
  double all = 0;
  for (std::size_t i = 0; i < gpu::kJpegWays; ++i)
    all += static_cast<double>(decoders.decoded_by(static_cast<JpegWay>(i)));
  for (std::size_t i = 0; i < gpu::kJpegWays; ++i) {
    const auto way = static_cast<JpegWay>(i);
    const auto part = static_cast<double>(decoders.decoded_by(way)) / std::max(1.0, all);
    if (part > 0)
      text += fmt::format("; {} {:.0f} % (late by {:.1f} ms at p99)", name_of(way), 100 * part,
                          decoders.late_ns(way) / 1e6);
  }
  return text;
}

struct Mixture {
  std::string name;
  JpegDecoders::Options options;
  bool tensors = false;
};

std::vector<Mixture> mixtures() {
  using gpu::only;
  std::vector<Mixture> all;
  for (std::size_t i = 0; i < gpu::kJpegWays; ++i) {
    const auto way = static_cast<JpegWay>(i);
    all.push_back({fmt::format("{} alone", name_of(way)), decoders_of(only(way))});
  }
  const JpegDecoders::Options usual = usual_decoders();
  const auto with = [&](std::string name, auto change, bool tensors = false) {
    JpegDecoders::Options options = usual;
    change(options);
    all.push_back({std::move(name), options, tensors});
  };
  for (const auto& [threads, pictures] : {std::pair{2u, 32u}, {3u, 56u}, {4u, 28u}, {2u, 112u}})
    with(fmt::format("engines alone, {} threads, {} at once", threads, pictures),
         [&](JpegDecoders::Options& options) {
           options.cpu_threads = 0;
           options.hardware_threads = threads;
           options.hardware_pictures = pictures;
         });
  with("engines and CPU, shares as measured", [](JpegDecoders::Options&) {});
  for (const int more : {-3, 2})
    with(fmt::format("the same, {} CPU threads", static_cast<int>(usual.cpu_threads) + more),
         [&](JpegDecoders::Options& options) {
           options.cpu_threads = static_cast<unsigned>(static_cast<int>(usual.cpu_threads) + more);
         });
  with("engines and CPU, 0.75 to the engines",
       [](JpegDecoders::Options& options) { options.hardware_share = 0.75; });
  with("engines, CPU and cores",
       [](JpegDecoders::Options& options) { options.cuda_beside_engines = true; });
  with(
      "training-ready tensors, engines alone",
      [](JpegDecoders::Options& options) { options.cpu_threads = 0; }, true);
  with(
      "training-ready tensors, shares as measured", [](JpegDecoders::Options&) {}, true);
  return all;
}

}  // namespace

void measure_decoding(Report& report, const Options& options) {
  if (options.pictures.empty())
    return report.row("decoding", "rates", Verdict::not_run, "no folder of pictures was given");
  const std::vector<File> files = load(options.pictures);
  if (files.empty())
    return report.row("decoding", "rates", Verdict::not_run, "no JPEG is in the folder");
  std::size_t bytes = 0;
  for (const File& file : files) bytes += file.size();
  report.row("decoding", "pictures in memory", Verdict::measured,
             fmt::format("{}, {:.1f} KB each", files.size(),
                         static_cast<double>(bytes) / static_cast<double>(files.size()) / 1e3));
  for (const Mixture& mixture : mixtures()) {
    std::string problem;
    const auto decoders = JpegDecoders::open(mixture.options, problem);
    if (!decoders) {
      report.row("decoding", mixture.name, Verdict::not_run, problem);
      continue;
    }
    NoConsumer none;
    std::unique_ptr<Tensors> tensors = mixture.tensors ? std::make_unique<Tensors>() : nullptr;
    Consumer& consumer = tensors ? static_cast<Consumer&>(*tensors) : none;
    const Rate rate = Run(files, *decoders, consumer).measure(options.seconds);
    report.row("decoding", mixture.name, rate.not_decoded ? Verdict::failed : Verdict::measured,
               rate.text() + shares(*decoders));
  }
}

}  // namespace batchflow::gpu_check
