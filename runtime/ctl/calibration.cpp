#include "runtime/ctl/calibration.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "core/base/config_value.h"
#include "core/base/random.h"
#include "runtime/ctl/measuring.h"
#include "runtime/protocol/descriptor.h"
#include "runtime/storage/read_engine.h"

namespace batchflow::ctl {
namespace {

constexpr unsigned kDepths[] = {1, 2, 4, 8, 16, 32};  // the reader has 32 at most
constexpr Bytes kSizes[] = {Bytes{4} << 10, Bytes{64} << 10, Bytes{1} << 20};
constexpr Bytes kSampleMost = Bytes{64} << 20;
constexpr std::uint64_t kSamplesMost = 2048;  // that are prepared
constexpr Bytes kMemoryMost = Bytes{512} << 20;

double process_cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Keeps so many reads of random samples under way, from within the engine's results.
class Reads {
 public:
  // Reads of `each` bytes from where a sample begins, as far as its file goes; 0: of samples.
  Reads(const OpenedDataset& data, unsigned depth, Bytes each, double seconds,
        const std::function<bool()>& stop)
      : data_(data), each_(each), seconds_(seconds), stop_(stop), slots_(depth) {
    storage::ReadEngineOptions options;
    options.depth = 32;
    Bytes largest = 0;
    for (int i = 0; i < 256; ++i) largest = std::max(largest, data.index->extent(random()).bytes);
    if (each > 0) largest = each;
    room_ = std::min(kSampleMost, 2 * storage::room_for(0, largest) + storage::kSector);
    options.staging = room_ * depth + (Bytes{4} << 20);
    engine_ = std::make_unique<storage::ReadEngine>(
        options, [this](std::span<const storage::ReadResult> results) { take(results); });
    for (Slot& slot : slots_) slot.memory = engine_->stage(room_);
  }

  ReadRate run() {
    const double cpu_before = process_cpu_s();
    begin_ = Clock::now();
    std::vector<storage::ReadPiece> pieces;
    for (std::size_t i = 0; i < slots_.size(); ++i) pieces.push_back(next(i));
    under_way_ = pieces.size();
    engine_->submit(pieces);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return under_way_ == 0; });
    if (!problem_.empty()) throw ConfigError(problem_);
    ReadRate rate;
    rate.depth = static_cast<unsigned>(slots_.size());
    rate.bytes = bytes_ / std::max<std::size_t>(1, took_.size());
    rate.taken_bytes = taken_ / std::max<std::size_t>(1, took_.size());
    rate.cpu_s = (process_cpu_s() - cpu_before) / static_cast<double>(took_.size());
    rate.reads_per_s = static_cast<double>(took_.size()) / ended_s_;
    rate.bytes_per_s = static_cast<double>(bytes_) / ended_s_;
    rate.p50_s = percentile(took_, 0.5);
    rate.p99_s = percentile(took_, 0.99);
    return rate;
  }
  std::string_view reader() const { return engine_->description(); }

 private:
  struct Slot {
    std::byte* memory = nullptr;
    std::string path;
    Clock::time_point begin;
  };

  SampleId random() { return SampleId{random_.below(data_.index->samples())}; }

  storage::ReadPiece next(std::size_t number) {
    Slot& slot = slots_[number];
    sources::Extent extent = data_.index->extent(random());
    if (each_ > 0)
      extent.bytes = std::min(each_, data_.index->file_bytes(extent.file) - extent.offset);
    extent.bytes = std::min(extent.bytes, room_ - 2 * storage::kSector);
    slot.path = data_.index->path(extent.file);
    storage::ReadPiece piece;
    piece.root = data_.root();
    piece.path = slot.path.c_str();
    piece.file = extent.file;
    piece.whole_file = extent.offset == 0 && extent.bytes == data_.index->file_bytes(extent.file);
    piece.offset = extent.offset;
    piece.bytes = extent.bytes;
    piece.to = slot.memory;
    piece.tag = number;
    slot.begin = Clock::now();
    taken_ += storage::room_for(piece.offset, piece.bytes);
    return piece;
  }

  void take(std::span<const storage::ReadResult> results) {
    std::vector<storage::ReadPiece> again;
    const std::lock_guard lock(mutex_);
    for (const storage::ReadResult& result : results) {
      const Slot& slot = slots_[result.tag];
      took_.push_back(since(slot.begin));
      bytes_ += result.bytes;
      if (result.error != 0 && problem_.empty())
        problem_ = fmt::format("{}: {}", slot.path, std::strerror(result.error));
      --under_way_;
      if (problem_.empty() && since(begin_) < seconds_ && !(stop_ && stop_()))
        again.push_back(next(result.tag));
    }
    under_way_ += again.size();
    engine_->submit(again);
    if (under_way_ > 0) return;
    ended_s_ = since(begin_);
    changed_.notify_all();
  }

  const OpenedDataset& data_;
  const Bytes each_;
  const double seconds_;
  const std::function<bool()>& stop_;
  Random random_{hash(29, 1)};
  Bytes room_ = 0;
  std::vector<Slot> slots_;
  Clock::time_point begin_;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::vector<double> took_;
  Bytes bytes_ = 0;
  Bytes taken_ = 0;  // of the store, in whole sectors
  std::size_t under_way_ = 0;
  double ended_s_ = 0;
  std::string problem_;
  std::unique_ptr<storage::ReadEngine> engine_;  // last: its thread uses all of these
};

bool reads_past_page_cache(const OpenedDataset& data) {
  const std::string path(data.index->path(data.index->extent(SampleId{0}).file));
  const protocol::Descriptor file(
      openat(data.root(), path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK));
  return static_cast<bool>(file);
}

// The stored bytes of some samples, in memory.
std::vector<std::vector<std::byte>> load(const OpenedDataset& data, std::vector<SampleId>& keys) {
  std::vector<std::vector<std::byte>> loaded;
  Random random(hash(29, 2));
  Bytes bytes = 0;
  const std::uint64_t most = std::min(kSamplesMost, data.index->samples());
  while (loaded.size() < most && bytes < kMemoryMost) {
    const SampleId sample{random.below(data.index->samples())};
    const sources::Extent extent = data.index->extent(sample);
    if (extent.bytes > kSampleMost) continue;
    const std::string path(data.index->path(extent.file));
    const protocol::Descriptor file(
        openat(data.root(), path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    std::vector<std::byte> read(extent.bytes);
    const ssize_t got =
        file ? pread(file.get(), read.data(), read.size(), static_cast<off_t>(extent.offset)) : -1;
    if (got < 0 || static_cast<Bytes>(got) != extent.bytes)
      throw ConfigError(
          fmt::format("{}: {} bytes at {} cannot be read", path, extent.bytes, extent.offset));
    bytes += extent.bytes;
    keys.push_back(sample);
    loaded.push_back(std::move(read));
  }
  return loaded;
}

// The samples that are prepared, in forms to begin from.
struct Forms {
  std::vector<SampleId> keys;
  std::vector<std::vector<std::byte>> bytes;
};

// Prepares samples one after the other, so that each is gone from the processor's caches before it
// comes again. One for each thread.
class Preparations {
 public:
  Preparations(const OpenedDataset& data, const prepare::Pipeline& pipeline)
      : data_(data),
        pipeline_(pipeline),
        layout_(pipeline.spec(), 1),
        slot_(static_cast<std::size_t>(layout_.bytes)),
        preparer_(prepare::make_preparer()) {}

  // Decoded forms of as many as there is memory for; empty: the pipeline has none.
  Forms decode(const Forms& stored) {
    Forms decoded;
    Bytes kept = 0;
    for (std::size_t i = 0; i < stored.keys.size() && kept < kMemoryMost; ++i) {
      std::vector<std::byte> form;
      const prepare::Preparer::KeepDecoded keep = [&](Bytes bytes) {
        form.resize(bytes);
        return form.data();
      };
      if (!prepare(stored.keys[i], stored.bytes[i], false, &keep)) continue;  // it is corrupt
      if (form.empty()) return {};
      kept += form.size();
      decoded.bytes.push_back(std::move(form));
      decoded.keys.push_back(stored.keys[i]);
    }
    if (decoded.keys.empty())
      throw ConfigError("none of the samples can be prepared by this pipeline");
    return decoded;
  }

  // Processor time of one, over `seconds` of it; begins with the sample of that number.
  double each(const Forms& from, bool decoded, std::size_t first, double seconds,
              const std::function<bool()>& stop) {
    prepare(from.keys[0], from.bytes[0], decoded, nullptr);  // memory is taken once
    const double begin = cpu_s();
    std::size_t done = 0;
    while ((done < 8 || cpu_s() - begin < seconds) && !(stop && stop())) {
      const std::size_t at = (first + done++) % from.keys.size();
      prepare(from.keys[at], from.bytes[at], decoded, nullptr);
    }
    return (cpu_s() - begin) / static_cast<double>(std::max<std::size_t>(1, done));
  }

 private:
  // False: it is corrupt. That costs something, too: the service replaces it.
  bool prepare(SampleId sample, const std::vector<std::byte>& bytes, bool decoded,
               const prepare::Preparer::KeepDecoded* keep) {
    prepare::Preparer::Input input{.sample = sample, .bytes = bytes};
    input.decoded = decoded;
    input.label = data_.index->label(sample).value_or(0);
    input.draw_key = hash(29, sample.value, ++draws_);
    const batch::BlockWriter out(layout_, slot_.data());
    const prepare::Prepared done = preparer_->prepare(pipeline_, input, out, 0, keep);
    if (done == prepare::Prepared::failed)
      throw ConfigError(
          fmt::format("{}: {}", data_.index->sample_name(sample), preparer_->problem()));
    return done == prepare::Prepared::done;
  }

  const OpenedDataset& data_;
  const prepare::Pipeline& pipeline_;
  batch::BlockLayout layout_;
  std::vector<std::byte> slot_;
  std::unique_ptr<prepare::Preparer> preparer_;
  std::uint64_t draws_ = 0;
};

// What all cores need for a sample when each prepares another one: they share memory and, if they
// are threads of one core, that.
double on_all_cores(const OpenedDataset& data, const prepare::Pipeline& pipeline, const Forms& from,
                    bool decoded, const CalibrationOptions& options) {
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<double> costs(cores);
  std::vector<std::exception_ptr> problems(cores);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < cores; ++i) {
    threads.emplace_back([&, i] {
      try {
        costs[i] =
            Preparations(data, pipeline)
                .each(from, decoded, i * from.keys.size() / cores, options.seconds, options.stop);
      } catch (...) {
        problems[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& problem : problems)
    if (problem) std::rethrow_exception(problem);
  double sum = 0;
  for (const double cost : costs) sum += cost;
  return sum / cores;
}

PreparationCost preparation_cost(const OpenedDataset& data, const prepare::Pipeline& pipeline,
                                 const CalibrationOptions& options) {
  Forms stored;
  stored.bytes = load(data, stored.keys);
  PreparationCost cost;
  Bytes sum = 0;
  for (const auto& bytes : stored.bytes) sum += bytes.size();
  cost.stored = sum / stored.bytes.size();
  Preparations alone(data, pipeline);
  cost.prepared = pipeline.info().prepared_bytes;  // by which the engine fits blocks
  cost.random = pipeline.info().has_random;
  cost.alone_s = alone.each(stored, false, 0, options.seconds / 2, options.stop);
  cost.cold_s = on_all_cores(data, pipeline, stored, false, options);
  const Forms decoded = alone.decode(stored);
  if (decoded.keys.empty()) return cost;
  sum = 0;
  for (const auto& bytes : decoded.bytes) sum += bytes.size();
  cost.decoded = sum / decoded.bytes.size();
  cost.decoded_s = on_all_cores(data, pipeline, decoded, true, options);
  return cost;
}

// Between areas that no cache of a processor holds.
double copy_rate(double seconds) {
  constexpr Bytes area = Bytes{128} << 20;
  std::vector<std::byte> from(area, std::byte{1}), to(area, std::byte{2});
  const auto begin = Clock::now();
  std::uint64_t copies = 0;
  do {
    std::memcpy(to.data(), from.data(), area);
    from[copies++ % area] = to[0];
  } while (since(begin) < seconds);
  return static_cast<double>(copies * area) / since(begin);
}

// A thread sleeps until it is notified; the time from that until it runs, in the middle of many.
double wake_time(double seconds) {
  std::atomic<std::uint32_t> turn{0};
  std::vector<double> took;
  Clock::time_point notified;
  std::thread sleeper([&] {
    std::uint32_t seen = 0;
    for (turn.wait(seen); (seen = turn.load()) != UINT32_MAX; turn.wait(seen)) {
      took.push_back(since(notified));
      turn.store(++seen);
      turn.notify_one();
    }
  });
  const auto begin = Clock::now();
  for (std::uint32_t round = 0; since(begin) < seconds || round < 20; round += 2) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // until it sleeps
    notified = Clock::now();
    turn.store(round + 1);
    turn.notify_one();
    turn.wait(round + 1);
  }
  turn.store(UINT32_MAX);
  turn.notify_one();
  sleeper.join();
  return percentile(took, 0.5);
}

// How much longer than it should a thread sleeps, mean.
double sleep_over(double seconds) {
  const auto begin = Clock::now();
  double over_s = 0;
  int slept = 0;
  while (since(begin) < seconds || slept < 20) {
    const auto until = Clock::now() + std::chrono::milliseconds(2);
    std::this_thread::sleep_until(until);
    over_s += since(until);
    ++slept;
  }
  return over_s / slept;
}

}  // namespace

Calibration calibrate(const OpenedDataset& data, const prepare::Pipeline* pipeline,
                      const CalibrationOptions& options) {
  if (data.index->samples() == 0) throw ConfigError("the dataset has no samples to measure with");
  Calibration made;
  const double parts = static_cast<double>(std::size(kDepths) + std::size(kSizes)) +
                       (pipeline ? 3 : 0) + (options.service ? 2 : 0) + 2;
  double done = 0;
  const auto begin_part = [&](const std::string& what) {
    if (options.progress) options.progress(done++ / parts, what);
    return !(options.stop && options.stop());
  };
  made.past_page_cache = reads_past_page_cache(data);
  for (const unsigned depth : kDepths) {
    if (!begin_part(fmt::format("reading, {} at once", depth))) return made;
    Reads reads(data, depth, 0, options.seconds, options.stop);
    made.reads.push_back(reads.run());
    made.reader = reads.reader();
  }
  for (const Bytes bytes : kSizes) {
    // Files that are hardly larger than that say nothing about it.
    if (data.index->file_bytes(data.index->extent(SampleId{0}).file) < 4 * bytes) continue;
    if (!begin_part(fmt::format("reading {} bytes", bytes))) return made;
    made.sizes.push_back(
        Reads(data, kDepths[std::size(kDepths) - 1], bytes, options.seconds / 2, options.stop)
            .run());
  }
  made.sizes.push_back(made.reads.back());
  std::sort(made.sizes.begin(), made.sizes.end(),
            [](const ReadRate& a, const ReadRate& b) { return a.taken_bytes < b.taken_bytes; });
  if (pipeline) {
    if (!begin_part("preparing")) return made;
    made.preparation = preparation_cost(data, *pipeline, options);
    done += 2;
  }
  if (!begin_part("copying")) return made;
  made.copy_bytes_per_s = copy_rate(options.seconds / 2);
  if (!begin_part("waking")) return made;
  made.wake_s = wake_time(options.seconds / 2);
  made.sleep_over_s = sleep_over(options.seconds / 4);
  if (options.service) {
    if (!begin_part("a service of its own")) return made;
    made.service = measure_service_costs(*options.service);
  }
  return made;
}

}  // namespace batchflow::ctl
