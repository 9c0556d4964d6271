#include "tools/gpu_check/memory_rates.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "runtime/gpu/copies.h"
#include "runtime/gpu/driver.h"

namespace batchflow::gpu_check {
namespace {

using Clock = std::chrono::steady_clock;
using gpu::Copies;
using gpu::CopySettings;
using gpu::Direction;
using gpu::Urgency;
constexpr std::string_view kGroup = "copies";
constexpr Bytes kMiB = Bytes{1} << 20;
constexpr Bytes kLarge = 200'000'000;
constexpr Bytes kSmall = 64 << 10;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(share * static_cast<double>(values.size())))];
}

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds_of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

std::string gigabytes(double rate) {
  return fmt::format("{:.1f} GB/s", rate / 1e9);
}

std::string late(const std::vector<double>& seconds) {
  return fmt::format("p50 {:.3f} ms, p99 {:.3f} ms, most {:.3f} ms of {}",
                     1e3 * percentile(seconds, 0.5), 1e3 * percentile(seconds, 0.99),
                     1e3 * percentile(seconds, 1), seconds.size());
}

class Stream {
 public:
  Stream() {
    gpu::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  ~Stream() { (void)cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }
  void wait() const { gpu::check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }
  void copy(void* to, const void* from, Bytes bytes) const {
    gpu::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
  }

 private:
  cudaStream_t stream_ = nullptr;
};

class Rates {
 public:
  Rates(Report& report, const Options& options, gpu::Device& device)
      : report_(report),
        seconds_(options.seconds),
        device_(device),
        here_(device.make_pinned(kBytes)),
        there_(device.make_memory(kBytes)) {
    std::memset(here_.get(), 1, kBytes);
  }

  void plain() {
    const Stream stream;
    pinned_ = median([&] { stream.copy(there_->address(), here_.get(), kBytes); }, stream);
    measured("pinned, to the device, one copy of 1 GiB", gigabytes(pinned_));
    pinned_back_ = median([&] { stream.copy(here_.get(), there_->address(), kBytes); }, stream);
    measured("pinned, from the device, one copy of 1 GiB", gigabytes(pinned_back_));
    const double within =
        median([&] { stream.copy(there_->address(), there_->address() + kBytes / 2, kBytes / 2); },
               stream);
    measured("within the device, bytes read and written", gigabytes(within));
    std::vector<std::byte> pageable(256 * kMiB, std::byte{1});
    const double slow =
        median([&] { stream.copy(there_->address(), pageable.data(), pageable.size()); }, stream,
               pageable.size());
    measured("pageable, to the device, 256 MiB", gigabytes(slow));
  }

  // Batches of 256 MiB, one behind the other.
  void in_pieces() {
    double cpu = 0;
    const double rate = ours(Direction::to_device, {}, &cpu);
    compare("our copies to the device, batches of 256 MiB", rate, pinned_);
    measured("of a core, while they copy", fmt::format("{:.0f} %", 100 * cpu));
    compare("our copies from the device, batches of 256 MiB", ours(Direction::from_device, {}),
            pinned_back_);
    for (const unsigned size : {1u, 2u, 4u, 8u, 16u, 32u}) {
      CopySettings settings;
      settings.piece_bytes = size * kMiB;
      scanned(fmt::format("in pieces of {} MiB", size), settings);
    }
    for (const std::uint32_t in_flight : {1u, 3u}) {
      CopySettings settings;
      settings.pieces_in_flight = in_flight;
      scanned(fmt::format("with {} pieces in flight", in_flight), settings);
    }
  }

  void small_behind_large() {
    std::atomic<bool> stopping{false};
    std::atomic<Bytes> large{0};
    std::counting_semaphore<> ended{0};
    std::function<void()> again;
    Copies copies(device_, Direction::to_device);
    again = [&] {
      copies.add({{{there_->address(), here_.get(), kLarge}},
                  Urgency::usual,
                  nullptr,
                  [&](const std::string& problem) {
                    large += kLarge;
                    if (stopping || !problem.empty())
                      ended.release();
                    else
                      again();
                  }});
    };
    for (int i = 0; i < 3; ++i) again();
    const auto begin = Clock::now();
    std::vector<double> waits = waits_for([&](std::byte* to, const std::byte* from) {
      copies.copy({{to, from, kSmall}}, Urgency::urgent);
    });
    const double rate = static_cast<double>(large) / seconds_since(begin);
    stopping = true;
    for (int i = 0; i < 3; ++i) ended.acquire();
    report_.row(kGroup, "64 KiB, urgent, while 200 MB are copied all the time",
                percentile(waits, 0.99) < 2e-3 ? Verdict::passed : Verdict::failed, late(waits),
                "p99 under 2 ms");
    measured("the large copies meanwhile", gigabytes(rate));
  }

  void small_naively() {
    const Stream large, own;
    const auto keep_busy = [&] { large.copy(there_->address(), here_.get(), kLarge); };
    keep_busy();
    measured("64 KiB on the stream of the large copies",
             late(waits_for([&](std::byte* to, const std::byte* from) {
               keep_busy();
               large.copy(to, from, kSmall);
               large.wait();
               keep_busy();
             })));
    large.wait();
    measured("64 KiB on a stream of its own, large copies in one piece",
             late(waits_for([&](std::byte* to, const std::byte* from) {
               if (cudaStreamQuery(large) == cudaSuccess) {
                 keep_busy();
                 keep_busy();
               }
               own.copy(to, from, kSmall);
               own.wait();
             })));
    large.wait();
  }

  void many_pieces() {
    constexpr Bytes kEach = 16 << 10;
    std::vector<gpu::Piece> pieces;
    for (Bytes i = 0; i < 256; ++i)  // not side by side, or one copy would do
      pieces.push_back({there_->address() + 3 * i * kEach, here_.get() + 2 * i * kEach, kEach});
    const Stream stream;
    const double apart = took([&] {
      for (const gpu::Piece& piece : pieces) stream.copy(piece.to, piece.from, piece.bytes);
      stream.wait();
    });
    const auto lane = device_.make_lane(Direction::to_device);
    const double together = took([&] {
      lane->begin(pieces);
      while (!lane->oldest_is_over()) {
      }
    });
    measured("256 pieces of 16 KiB, each by cudaMemcpyAsync",
             fmt::format("{:.0f} us", 1e6 * apart));
    measured("256 pieces of 16 KiB, by cudaMemcpyBatchAsync",
             fmt::format("{:.0f} us, {:.2f} times as fast", 1e6 * together, apart / together));
  }

 private:
  static constexpr Bytes kBytes = Bytes{1} << 30;

  void measured(std::string_view what, const std::string& value) {
    report_.row(kGroup, what, Verdict::measured, value);
  }

  void compare(std::string_view what, double rate, double with) {
    const double share = rate / with;
    report_.row(kGroup, what, share >= 0.95 ? Verdict::passed : Verdict::failed,
                fmt::format("{}, {:.1f} % of the plain rate", gigabytes(rate), 100 * share),
                "at least 95 %");
  }

  void scanned(const std::string& what, const CopySettings& settings) {
    const double rate = ours(Direction::to_device, settings);
    measured("our copies to the device, " + what,
             fmt::format("{}, {:.1f} %", gigabytes(rate), 100 * rate / pinned_));
  }

  // Bytes a second of what is read, or read and written within the device (kBytes / 2 of each).
  template <class Begin>
  double median(Begin begin_copy, const Stream& stream, Bytes bytes = kBytes) const {
    begin_copy();
    stream.wait();
    std::vector<double> rates;
    const auto begin = Clock::now();
    while (rates.size() < 3 || seconds_since(begin) < seconds_ / 2) {
      const auto one = Clock::now();
      begin_copy();
      stream.wait();
      rates.push_back(static_cast<double>(bytes) / seconds_since(one));
    }
    return percentile(rates, 0.5);
  }

  double ours(Direction direction, const CopySettings& settings, double* cpu = nullptr) {
    constexpr Bytes kBatch = 256 * kMiB;
    std::counting_semaphore<> room{2};
    std::string failed;
    std::uint64_t batches = 0;
    Copies copies(device_, direction, settings);
    const auto begin = Clock::now();
    const double cpu_begin = cpu_seconds();
    while (batches < 4 || seconds_since(begin) < seconds_ / 2) {
      room.acquire();
      const Bytes at = batches++ % 4 * kBatch;
      std::byte* here = here_.get() + at;
      std::byte* there = there_->address() + at;
      const gpu::Piece piece = direction == Direction::to_device ? gpu::Piece{there, here, kBatch}
                                                                 : gpu::Piece{here, there, kBatch};
      copies.add({{piece}, Urgency::usual, nullptr, [&](const std::string& problem) {
                    if (!problem.empty()) failed = problem;
                    room.release();
                  }});
    }
    room.acquire();
    room.acquire();
    const double took = seconds_since(begin);
    if (cpu != nullptr) *cpu = (cpu_seconds() - cpu_begin) / took;
    if (!failed.empty()) throw std::runtime_error(failed);
    return static_cast<double>(batches * kBatch) / took;
  }

  // How long each of many small copies takes, with pauses between them.
  template <class SmallCopy>
  std::vector<double> waits_for(SmallCopy copy) {
    std::vector<double> waits;
    std::byte* to = there_->address() + kBytes - kSmall;
    const std::byte* from = here_.get() + kBytes - kSmall;
    const auto begin = Clock::now();
    while (seconds_since(begin) < 2 * seconds_) {
      const auto one = Clock::now();
      copy(to, from);
      waits.push_back(seconds_since(one));
      std::this_thread::sleep_for(std::chrono::microseconds(waits.size() * 7919 % 1000));
    }
    return waits;
  }

  template <class Work>
  double took(Work work) const {
    std::vector<double> times;
    const auto begin = Clock::now();
    while (times.size() < 10 || seconds_since(begin) < seconds_ / 4) {
      const auto one = Clock::now();
      work();
      times.push_back(seconds_since(one));
    }
    return percentile(times, 0.5);
  }

  Report& report_;
  const double seconds_;
  gpu::Device& device_;
  const std::shared_ptr<std::byte> here_;
  const std::unique_ptr<gpu::DeviceMemory> there_;
  double pinned_ = 0, pinned_back_ = 0;
};

}  // namespace

void measure_copies(Report& report, const Options& options, gpu::Device& device) {
  Rates rates(report, options, device);
  rates.plain();
  rates.in_pieces();
  rates.small_behind_large();
  rates.small_naively();
  rates.many_pieces();
}

}  // namespace batchflow::gpu_check
