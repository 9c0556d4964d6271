// Cost of reading beside fio, on the same files: ./dev bench storage [--folder DIR] [--rounds N]
// [--engine NAME] [--small]
//
// fio's io_uring engine and the read engine take turns, with 32 reads at once, O_DIRECT and
// registered memory on both sides. Each round gives a ratio, of which the middle, least and most
// are shown. Both open small files for each read, in an order that does not depend on where they
// lie.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/config_value.h"
#include "core/base/random.h"
#include "runtime/storage/read_engine.h"
#include "tools/bench/runtime/storage/files.h"

namespace batchflow::bench {
namespace {

constexpr unsigned kDepth = 32;
constexpr Bytes kShort = 4096;
constexpr Bytes kLong = 27 * 4096;  // 110 KB in whole sectors

struct Choice {
  std::string folder = std::filesystem::temp_directory_path().string();
  std::string engine = "auto";
  unsigned rounds = 7;
  std::uint64_t files = 20'000;
  Bytes big = Bytes{1} << 30;
  double seconds = 2;
};

struct Rate {
  double reads = 0;   // a second
  double cpu_us = 0;  // a read
};

double cpu_s() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// What is read: blocks of one file at random, or all of many files.
struct Work {
  std::string name;
  Bytes block = 0;
  std::uint64_t files = 0;  // 0: the big file
  std::string fio;          // the arguments of fio
};

// ------------------------------------------------------------------------------ the two sides ----

Rate run_fio(const Work& work) {
  const std::string command = fmt::format(
      "fio --name=read --ioengine=io_uring --direct=1 --iodepth={} --bs={} --fixedbufs=1 "
      "--output-format=json {} 2>&1",
      kDepth, work.block, work.fio);
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start fio");
  std::string text;
  char part[4096];
  for (std::size_t got; (got = std::fread(part, 1, sizeof part, pipe)) > 0;) text.append(part, got);
  const int status = ::pclose(pipe);
  const std::size_t begin = text.find('{');
  if (status != 0 || begin == text.npos) {
    throw std::runtime_error(fmt::format("{}\nprints: {}", command, text));
  }
  const auto job = nlohmann::json::parse(text.substr(begin)).at("jobs").at(0);
  const double reads = job.at("read").at("iops");
  const double cpu = (job.at("usr_cpu").get<double>() + job.at("sys_cpu").get<double>()) / 100;
  return {.reads = reads, .cpu_us = cpu / reads * 1e6};
}

// Keeps the engine busy from within Done, for a time or until all files have been read.
class Ours {
 public:
  Ours(const Choice& choice, const Work& work, const BenchFiles& files)
      : choice_(choice), work_(work), files_(files) {
    storage::ReadEngineOptions options;
    options.engine = choice.engine;
    options.depth = options.threads = kDepth;
    options.staging = Bytes{64} << 20;
    engine_ =
        std::make_unique<storage::ReadEngine>(options, [this](auto results) { take(results); });
  }

  Rate run() {
    for (unsigned i = 0; i < 2 * kDepth; ++i) areas_.push_back(engine_->stage(work_.block));
    const double cpu_before_s = cpu_s();
    begin_ = Clock::now();
    std::vector<storage::ReadPiece> pieces;
    for (std::uint64_t i = 0; i < areas_.size(); ++i) pieces.push_back(next(i));
    std::unique_lock lock(mutex_);
    engine_->submit(pieces);
    changed_.wait(lock, [&] { return under_way_ == 0; });
    if (wrong_ > 0) throw std::runtime_error(fmt::format("{} reads failed", wrong_));
    const double reads = static_cast<double>(done_);
    return {.reads = reads / std::chrono::duration<double>(end_ - begin_).count(),
            .cpu_us = (cpu_s() - cpu_before_s) / reads * 1e6};
  }
  std::string_view description() const { return engine_->description(); }

 private:
  using Clock = std::chrono::steady_clock;

  storage::ReadPiece next(std::uint64_t area) {
    storage::ReadPiece piece{.root = files_.root(), .path = "big"};
    if (work_.files > 0) {
      piece.path = files_.name(work_.block, asked_).c_str();
      piece.whole_file = true;
    } else {
      piece.offset = random_.below(choice_.big / work_.block) * work_.block;
    }
    piece.bytes = work_.block;
    piece.to = areas_[area];
    piece.tag = area;
    ++asked_;
    ++under_way_;
    return piece;
  }
  bool more() const {
    if (work_.files > 0) return asked_ < work_.files;
    return std::chrono::duration<double>(Clock::now() - begin_).count() < choice_.seconds;
  }
  void take(std::span<const storage::ReadResult> results) {
    const std::lock_guard lock(mutex_);
    again_.clear();
    const bool go_on = more();
    for (const storage::ReadResult& result : results) {
      wrong_ += result.error != 0 || result.bytes != work_.block;
      ++done_;
      --under_way_;
      if (go_on && (work_.files == 0 || asked_ < work_.files)) again_.push_back(next(result.tag));
    }
    engine_->submit(again_);
    if (under_way_ == 0) {
      end_ = Clock::now();
      changed_.notify_all();
    }
  }

  const Choice& choice_;
  const Work& work_;
  const BenchFiles& files_;
  std::vector<std::byte*> areas_;
  std::vector<storage::ReadPiece> again_;
  Random random_{11};
  Clock::time_point begin_, end_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t asked_ = 0, done_ = 0, under_way_ = 0, wrong_ = 0;
  std::unique_ptr<storage::ReadEngine> engine_;
};

// -------------------------------------------------------------------------------- the table ----

double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void compare(const Choice& choice, const Work& work, const BenchFiles& files) {
  std::vector<double> ratios, fio_reads, our_reads, fio_cpu, our_cpu;
  Ours(choice, work, files).run();  // folders and files are in memory for both
  for (unsigned round = 0; round < choice.rounds; ++round) {
    const Rate fio = run_fio(work);
    const Rate ours = Ours(choice, work, files).run();
    ratios.push_back(ours.reads / fio.reads);
    fio_reads.push_back(fio.reads);
    our_reads.push_back(ours.reads);
    fio_cpu.push_back(fio.cpu_us);
    our_cpu.push_back(ours.cpu_us);
  }
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  fmt::print("| {} | {:.0f} | {:.0f} | {:.2f} | {:.2f} - {:.2f} | {:.1f} | {:.1f} |\n", work.name,
             middle(our_reads), middle(fio_reads), middle(ratios), *least, *most, middle(our_cpu),
             middle(fio_cpu));
  std::fflush(stdout);
}

int run(const Choice& choice) {
  const BenchFiles files(choice.folder, choice.files, {kShort, kLong}, choice.big);
  const std::string big = fmt::format(
      "--filename={}/big --registerfiles=1 --rw=randread --size={} --time_based "
      "--runtime={}",
      files.path(), choice.big, choice.seconds);
  auto small = [&](Bytes block) {
    return fmt::format(
        "--directory={}/{} --filename_format='$filenum' --nrfiles={} --filesize={} --rw=read "
        "--file_service_type=sequential --openfiles={}",
        files.path(), block, choice.files, block, kDepth);
  };
  const std::vector<Work> all = {{"big file, 4 KiB anywhere", kShort, 0, big},
                                 {"big file, 108 KiB anywhere", kLong, 0, big},
                                 {"files of 4 KiB", kShort, choice.files, small(kShort)},
                                 {"files of 108 KiB", kLong, choice.files, small(kLong)}};
  fmt::print("{}, {} rounds, {} files, a big file of {} MiB\n\n",
             Ours(choice, all[0], files).description(), choice.rounds, choice.files,
             choice.big >> 20);
  fmt::print("| what | reads/s | fio | ratio | least - most | CPU us a read | fio |\n");
  fmt::print("|---|---|---|---|---|---|---|\n");
  for (const Work& work : all) compare(choice, work, files);
  return 0;
}

int misused(std::string_view problem) {
  fmt::print(stderr,
             "bench_storage: {}; write [--folder DIR] [--rounds N] [--engine auto|io_uring|pread] "
             "[--small]\n",
             problem);
  return 2;
}

}  // namespace
}  // namespace batchflow::bench

int main(int argc, char** argv) {
  batchflow::bench::Choice choice;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--small") {
      choice.files = 100;
      choice.big = batchflow::Bytes{8} << 20;
      choice.rounds = 1;
      choice.seconds = 1;
    } else if (i + 1 == argc) {
      return batchflow::bench::misused(fmt::format("`{}` is unknown or has no value", name));
    } else if (name == "--folder") {
      choice.folder = argv[++i];
    } else if (name == "--engine") {
      choice.engine = argv[++i];
    } else if (name == "--rounds") {
      const auto rounds = batchflow::parse_unsigned(argv[++i]);
      if (!rounds || *rounds == 0 || *rounds > 1000)
        return batchflow::bench::misused("rounds: 1 to 1000");
      choice.rounds = static_cast<unsigned>(*rounds);
    } else {
      return batchflow::bench::misused(fmt::format("no argument `{}`", name));
    }
  }
  if (std::system("command -v fio >/dev/null") != 0) {
    fmt::print("skipped: storage: fio is not there (apt-get install fio)\n");
    return 77;
  }
  try {
    return batchflow::bench::run(choice);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_storage: {}\n", error.what());
    return 1;
  }
}
