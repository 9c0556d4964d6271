// bench_service: the cost of batchflowd for its jobs, without preparation.
//
//   bench_service [--rounds N] [--seconds S] [--only PARTS]
//
// Rows of numbers are prepared once and served from memory to jobs in processes of their own.
// Measured are: how many batches a second one service delivers, the cost of a batch as more and
// more are served, the share of a core at 1,000 batches a second, and how soon a job has a batch of
// 38 MB and reads it, beside memory of its own; and how many samples by their keys a store gives.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/client/batchflow.h"
#include "runtime/protocol/channel.h"
#include "runtime/sources/npy.h"
#include "tests/temporary_folder.h"
#include "tools/bench/process_cost.h"
#include "tools/bench/spread.h"

namespace {

namespace fs = std::filesystem;
using batchflow::bench::Spread;
using batchflow::bench::spread_of;
using Clock = std::chrono::steady_clock;

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

std::string text(const Spread& spread, int digits = 1) {
  return fmt::format("{:.{}f} ({:.{}f} to {:.{}f})", spread.middle, digits, spread.least, digits,
                     spread.most, digits);
}

// A process of this program, which does not outlive it.
pid_t in_another_process(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process can be made");
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  body();
  _exit(0);
}
void end(pid_t process, int signal) {
  kill(process, signal);
  waitpid(process, nullptr, 0);
}

class Folder {
 public:
  std::string in(const char* name) const { return (folder_ / name).string(); }

 private:
  batchflow::test::TemporaryFolder folder_;
};

// An array of `rows` times `width` floats.
void write_rows(const std::string& file, std::size_t rows, std::size_t width) {
  std::ofstream out(file, std::ios::binary);
  out << batchflow::sources::npy_head("<f4", fmt::format("({}, {})", rows, width));
  std::vector<float> row(width);
  for (std::size_t k = 0; k < rows; ++k) {
    std::fill(row.begin(), row.end(), static_cast<float>(k));
    out.write(reinterpret_cast<const char*>(row.data()),
              static_cast<std::streamsize>(width * sizeof(float)));
  }
}

class Service {
 public:
  Service(const Folder& folder, const std::string& data, const char* memory)
      : socket_(folder.in("socket")) {
    const fs::path program = fs::read_symlink("/proc/self/exe").parent_path() / "batchflowd";
    const std::string dataset = "rows=" + data, state = folder.in("state");
    process_ = in_another_process([&] {
      const int nowhere = open("/dev/null", O_WRONLY);
      dup2(nowhere, STDERR_FILENO);
      execl(program.c_str(), "batchflowd", "--dataset", dataset.c_str(), "--socket",
            socket_.c_str(), "--state", state.c_str(), "--memory", memory, "--http", "-1", nullptr);
      _exit(127);
    });
    for (int tries = 0; !listens(); ++tries) {
      if (tries == 1000) throw std::runtime_error("batchflowd does not start");
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  ~Service() { end(process_, SIGTERM); }
  const std::string& socket() const { return socket_; }

  // CPU time of its threads but those that prepare: the cost of serving.
  double serving_cpu_s() const { return cpu_s(false); }
  double all_cpu_s() const { return cpu_s(true); }
  // The most memory that it has had of its own and of what it shares, in MiB.
  double memory_mib() const {
    std::ifstream in(fmt::format("/proc/{}/status", process_));
    for (std::string line; std::getline(in, line);) {
      double kib = 0;
      if (std::sscanf(line.c_str(), "VmHWM: %lf kB", &kib) == 1) return kib / 1024;
    }
    return 0;
  }

 private:
  double cpu_s(bool with_workers) const {
    double ticks = 0;
    for (const auto& task : fs::directory_iterator(fmt::format("/proc/{}/task", process_))) {
      std::ifstream in(task.path() / "stat");
      std::string line;
      std::getline(in, line);
      if (!with_workers && line.find("(bf-prepare)") != line.npos) continue;
      const std::size_t after = line.rfind(')');
      if (after == line.npos) continue;
      unsigned long user = 0, system = 0;
      std::sscanf(line.c_str() + after + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                  &user, &system);
      ticks += static_cast<double>(user + system);
    }
    return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  bool listens() const {
    std::string problem;
    return batchflow::protocol::Channel::connect(socket_, problem).is_open();
  }

  std::string socket_;
  pid_t process_ = -1;
};

class Loader {
 public:
  Loader(const Service& service, std::uint32_t batch, std::uint32_t credits = 0) {
    bf_loader_options options = BF_LOADER_OPTIONS_INIT;
    options.service = service.socket().c_str();
    options.dataset = "rows";
    options.batch_samples = batch;
    options.credits = credits;
    if (bf_loader_open(&options, &loader_) != BF_OK) throw std::runtime_error(bf_last_error());
  }
  ~Loader() { bf_loader_close(loader_); }
  const bf_batch& next() {
    if (bf_loader_next(loader_, &batch_) != BF_OK) throw std::runtime_error(bf_last_error());
    return batch_;
  }
  void release() { bf_batch_release(loader_, batch_.handle); }
  void pass(std::uint64_t batches) {
    for (std::uint64_t i = 0; i < batches; ++i) {
      next();
      release();
    }
  }

 private:
  bf_loader* loader_ = nullptr;
  bf_batch batch_ = BF_BATCH_INIT;
};

// Numbers that other processes write and this one reads: of each job, its batches by how long it
// waited for them, in steps of a quarter.
constexpr unsigned kJobsMost = 256;
struct Counts {
  static constexpr unsigned kSteps = 128;
  volatile std::uint64_t waited[kJobsMost][kSteps];

  void add(unsigned job, double us) {
    const double step = us <= 0.1 ? 0 : std::log(us / 0.1) / std::log(1.25);
    const auto at = std::min(kSteps - 1, static_cast<unsigned>(step));
    waited[job][at] = waited[job][at] + 1;
  }
  static double us_of(unsigned step) { return 0.1 * std::pow(1.25, step + 1); }
  std::vector<std::uint64_t> sums() const {
    std::vector<std::uint64_t> all(kSteps);
    for (const auto& job : waited)
      for (unsigned step = 0; step < kSteps; ++step) all[step] += job[step];
    return all;
  }
};
Counts* shared_counts() {
  void* memory =
      mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no shared memory");
  return static_cast<Counts*>(memory);
}

struct Options {
  unsigned rounds = 5;
  double seconds = 3;
  std::uint64_t most = 1'000'000;
  std::string rows_memory = "2gib";
};

// -------------------------------------------------------------------------------- batches a second

void batches_a_second(const Options& options, const Folder& folder, const std::string& rows) {
  std::printf("batches of 64 rows of 128 B, jobs that compute nothing; aim 60,000 a second\n");
  std::printf("%6s %28s %28s %28s\n", "jobs", "batches/s", "us of the service's CPU a batch",
              "99 of 100 came within, ms");
  for (const unsigned jobs : {1u, 4u, 16u, 64u, kJobsMost}) {
    std::vector<double> rates, costs, waits;
    for (unsigned round = 0; round < options.rounds; ++round) {
      // A job is promised eight blocks of half a MiB.
      const Service service(folder, rows, "2gib");
      Counts* counts = shared_counts();
      std::vector<pid_t> processes;
      for (unsigned job = 0; job < jobs; ++job) {
        processes.push_back(in_another_process([&] {
          try {
            Loader loader(service, 64, 8);
            for (;;) {
              const auto began = Clock::now();
              loader.next();
              counts->add(job, seconds(Clock::now() - began) * 1e6);
              loader.release();
            }
          } catch (const std::exception& error) {
            std::fprintf(stderr, "bench_service: %s\n", error.what());
          }
        }));
      }
      std::this_thread::sleep_for(std::chrono::seconds(1));
      const auto before = counts->sums();
      const double cpu = service.serving_cpu_s();
      const auto begin = Clock::now();
      std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
      auto served = counts->sums();
      const double took = seconds(Clock::now() - begin);
      double batches = 0;
      for (unsigned step = 0; step < Counts::kSteps; ++step)
        batches += static_cast<double>(served[step] -= before[step]);
      costs.push_back((service.serving_cpu_s() - cpu) * 1e6 / batches);
      rates.push_back(batches / took);
      unsigned step = 0;
      for (double sum = 0; step < Counts::kSteps; ++step)
        if ((sum += static_cast<double>(served[step])) >= 0.99 * batches) break;
      waits.push_back(Counts::us_of(step) / 1e3);
      for (const pid_t process : processes) end(process, SIGKILL);
      munmap(counts, sizeof(Counts));
    }
    std::printf("%6u %28s %28s %28s\n", jobs, text(spread_of(rates), 0).c_str(),
                text(spread_of(costs)).c_str(), text(spread_of(waits), 2).c_str());
    std::fflush(stdout);
  }
}

// ------------------------------------------------------------------------------- as more are
// served

void cost_by_served(const Options& options, const Folder& folder, const std::string& rows) {
  std::printf("\none job's batches, by how many it has had: us of the service's CPU a batch\n");
  const Service service(folder, rows, "512mib");
  Loader loader(service, 64, 8);
  std::uint64_t served = 0;
  for (std::uint64_t upto = 1000; upto <= options.most; upto *= 10) {
    // Each row has the same number of batches at its end, because a thousand take less than a clock
    // tick.
    const std::uint64_t window = std::min<std::uint64_t>(options.most / 10, 50'000);
    loader.pass(upto - std::min(upto, served + window));
    const double before = service.serving_cpu_s();
    const auto begin = Clock::now();
    loader.pass(window);
    const double took = seconds(Clock::now() - begin);
    served = std::max(upto, served + window);
    std::printf("%9lu: %6.2f us, %8.0f batches/s\n", static_cast<unsigned long>(upto),
                (service.serving_cpu_s() - before) * 1e6 / static_cast<double>(window),
                static_cast<double>(window) / took);
    std::fflush(stdout);
  }
}

// ------------------------------------------------------------------------------- 1,000 a second

void at_a_thousand(const Options& options, const Folder& folder, const std::string& rows) {
  std::vector<double> shares;
  for (unsigned round = 0; round < options.rounds; ++round) {
    const Service service(folder, rows, "512mib");
    Loader loader(service, 64);
    loader.pass(1000);
    const double cpu = service.serving_cpu_s();
    const auto begin = Clock::now();
    const auto many = static_cast<unsigned>(options.seconds * 1000);
    for (unsigned i = 0; i < many; ++i) {
      std::this_thread::sleep_until(begin + std::chrono::milliseconds(i));
      loader.pass(1);
    }
    shares.push_back((service.serving_cpu_s() - cpu) / seconds(Clock::now() - begin) * 100);
  }
  std::printf("\nat 1,000 batches a second: %s %% of a core, beside preparation; aim 3\n",
              text(spread_of(shares)).c_str());
}

// ------------------------------------------------------------------------------------ small rows

// One job takes small rows as fast as they come: an epoch that is read, and epochs that are kept.
void small_rows(const Options& options, const Folder& folder, double scale) {
  struct Kind {
    std::size_t rows, bytes;
  };
  std::printf("\none job, batches of 256, page cache warm; beside it the same bytes copied\n");
  std::printf("%22s %22s %22s %10s %26s %22s %12s\n", "rows", "first epoch, s", "its CPU, s",
              "MiB/data", "samples/s when kept", "their CPU, ns", "over memcpy");
  for (const Kind kind : {Kind{1'000'000, 64}, Kind{50'000, 4096}}) {
    const auto rows = static_cast<std::size_t>(static_cast<double>(kind.rows) * scale);
    const std::string file = folder.in(fmt::format("{}.npy", kind.bytes).c_str());
    write_rows(file, rows, kind.bytes / sizeof(float));
    std::vector<double> first, cpu, memory, rates, each, ratios;
    for (unsigned round = 0; round < options.rounds; ++round) {
      const Service service(folder, file, options.rows_memory.c_str());
      // What it has when it serves nothing is not the data's.
      const double idle = service.memory_mib();
      const auto cpu_of_both = [&] { return service.all_cpu_s() + batchflow::bench::cpu_s(); };
      double cpu_before = cpu_of_both();
      const auto begin = Clock::now();
      Loader loader(service, 256);
      std::uint64_t samples = 0;
      const auto pass_epoch = [&] {
        for (bool last = false; !last; loader.release()) {
          const bf_batch& batch = loader.next();
          samples += batch.samples;
          last = batch.last_of_epoch != 0;
        }
      };
      pass_epoch();
      first.push_back(seconds(Clock::now() - begin));
      cpu.push_back(cpu_of_both() - cpu_before);
      pass_epoch();
      const double data = static_cast<double>(rows * kind.bytes);
      memory.push_back((service.memory_mib() - idle) / (data / 1048576));
      samples = 0;
      cpu_before = cpu_of_both();
      const auto kept = Clock::now();
      do pass_epoch();
      while (seconds(Clock::now() - kept) < options.seconds);
      const double took = seconds(Clock::now() - kept);
      rates.push_back(static_cast<double>(samples) / took);
      each.push_back(1e9 * (cpu_of_both() - cpu_before) / static_cast<double>(samples));
      std::vector<std::byte> from(rows * kind.bytes), to(from.size());
      const auto copying = Clock::now();
      std::memcpy(to.data(), from.data(), from.size());
      ratios.push_back(took / static_cast<double>(samples) /
                       (seconds(Clock::now() - copying) / static_cast<double>(rows)));
    }
    std::printf("%12zu of %5zu B %22s %22s %10.2f %26s %22s %12.1f\n", rows, kind.bytes,
                text(spread_of(first), 2).c_str(), text(spread_of(cpu), 2).c_str(),
                spread_of(memory).middle, text(spread_of(rates), 0).c_str(),
                text(spread_of(each), 0).c_str(), spread_of(ratios).middle);
    std::fflush(stdout);
  }
}

// ----------------------------------------------------------------------------------- 38 MB a batch

// The rate at which eight lanes of 64 bits are summed up.
double read_gb_s(const void* memory, std::size_t bytes) {
  const auto* words = static_cast<const std::uint64_t*>(memory);
  const auto begin = Clock::now();
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i + 8 <= bytes / 8; i += 8)
    for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] += words[i + lane];
  const double took = seconds(Clock::now() - begin);
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) all += sum;
  asm volatile("" : : "r"(all));  // keeps the sum
  return static_cast<double>(bytes) / took / 1e9;
}

void large_batches(const Options& options, const Folder& folder, const std::string& data,
                   std::size_t batch_bytes) {
  const Service service(folder, data, "1gib");
  // Like threads that prepare: of the lowest priority, one a core.
  std::vector<pid_t> busy;
  for (unsigned core = 0; core < std::max(1u, std::thread::hardware_concurrency()); ++core) {
    busy.push_back(in_another_process([] {
      setpriority(PRIO_PROCESS, 0, 10);
      for (;;) asm volatile("");
    }));
  }
  const std::size_t map_bytes = batch_bytes;
  void* own = mmap(nullptr, map_bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (own == MAP_FAILED) throw std::runtime_error("no shared memory");
  std::memset(own, 1, map_bytes);
  std::vector<double> waits, ratios, rates;
  {
    Loader loader(service, 64, 3);
    loader.pass(4);
    const unsigned batches = options.rounds * 20;
    for (unsigned i = 0; i < batches; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      const auto begin = Clock::now();
      const bf_batch& batch = loader.next();
      waits.push_back(seconds(Clock::now() - begin) * 1e6);
      const double plain = read_gb_s(own, map_bytes);
      const double mine = read_gb_s(batch.arrays[0].values, batch_bytes);
      rates.push_back(mine);
      ratios.push_back(mine / plain);
      loader.release();
    }
  }
  munmap(own, map_bytes);
  for (const pid_t process : busy) end(process, SIGKILL);
  std::sort(waits.begin(), waits.end());
  std::printf(
      "\na batch of %.1f MB that is there, every core busy at nice 10:\n"
      "  until the job has it: p50 %.1f us, p99 %.1f us; aim 20\n"
      "  reading it: %s GB/s, over memory of the job's own %s; aim 0.9\n",
      static_cast<double>(batch_bytes) / 1e6, waits[waits.size() / 2],
      waits[waits.size() * 99 / 100], text(spread_of(rates), 2).c_str(),
      text(spread_of(ratios), 2).c_str());
}

// ------------------------------------------------------------------------------- samples by key

// Rows at random places by a store, one and 64 at a time, beside pread of the same file.
void gets(const Options& options, const Folder& folder, const std::string& file, std::size_t rows,
          std::size_t row_bytes) {
  std::vector<double> single, many, bare;
  const auto rate_of = [&](std::size_t at_once, const auto& get) {
    std::uint64_t random = 88172645463325252ull, count = 0;
    std::vector<std::uint64_t> keys(at_once);
    const auto begin = Clock::now();
    do {
      for (std::uint64_t& key : keys) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        key = random % rows;
      }
      get(keys);
      count += at_once;
    } while (seconds(Clock::now() - begin) < options.seconds);
    return static_cast<double>(count) / seconds(Clock::now() - begin);
  };
  const Service service(folder, file, "512mib");
  bf_store_options asking = BF_STORE_OPTIONS_INIT;
  asking.service = service.socket().c_str();
  asking.dataset = "rows";
  bf_store* store = nullptr;
  if (bf_store_open(&asking, &store) != BF_OK) throw std::runtime_error(bf_last_error());
  std::vector<bf_value> values(64);
  const auto get = [&](const std::vector<std::uint64_t>& keys) {
    if (bf_store_get(store, keys.data(), keys.size(), values.data()) != BF_OK)
      throw std::runtime_error(bf_last_error());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (*static_cast<const float*>(values[i].arrays[0].values) != static_cast<float>(keys[i]))
        throw std::runtime_error("a row of another key");
      bf_value_release(&values[i]);
    }
  };
  const int data = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  const auto head = static_cast<off_t>(fs::file_size(file) - rows * row_bytes);
  std::vector<std::byte> row(row_bytes);
  rate_of(64, get);  // all is kept by then
  for (unsigned round = 0; round < options.rounds; ++round) {
    single.push_back(rate_of(1, get));
    many.push_back(rate_of(64, get));
    bare.push_back(rate_of(64, [&](const std::vector<std::uint64_t>& keys) {
      for (const std::uint64_t key : keys) {
        const auto at = head + static_cast<off_t>(key * row_bytes);
        if (pread(data, row.data(), row_bytes, at) != static_cast<ssize_t>(row_bytes))
          throw std::runtime_error("a row cannot be read");
      }
    }));
  }
  close(data);
  bf_store_close(store);
  const double beside = spread_of(bare).middle;
  std::printf(
      "\nrows of %zu B by their keys, kept in memory, one thread, a second:\n"
      "  one at a time %s, 1/%.0f of pread\n  64 at a time %s, 1/%.0f of pread\n  pread %s\n",
      row_bytes, text(spread_of(single), 0).c_str(), beside / spread_of(single).middle,
      text(spread_of(many), 0).c_str(), beside / spread_of(many).middle,
      text(spread_of(bare), 0).c_str());
}

int bench(int argc, char** argv) {
  Options options;
  bool small = false;
  CLI::App app("What batchflowd itself costs its jobs.", "bench_service");
  app.add_option("--rounds", options.rounds, "Turns of each")->check(CLI::Range(1, 100));
  app.add_option("--seconds", options.seconds, "Of each turn")->check(CLI::Range(0.1, 600.0));
  app.add_option("--most", options.most, "Batches of the longest job")
      ->check(CLI::Range(10'000, 100'000'000));
  app.add_flag("--small", small, "One short round: whether it works");
  const std::vector<std::string> all = {"rate", "served", "thousand", "rows", "large", "gets"};
  std::vector<std::string> parts = all;
  app.add_option("--rows-memory", options.rows_memory, "The service's, for small rows");
  app.add_option("--only", parts, "These parts: rate, served, thousand, rows, large, gets")
      ->delimiter(',')
      ->check(CLI::IsMember(all));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (small) options = {1, 0.2, 10'000};
  const Folder folder;
  const std::string rows = folder.in("rows.npy"), large = folder.in("large.npy");
  constexpr std::size_t kPicture = 3 * 224 * 224;
  write_rows(rows, 64 * 256, 32);
  write_rows(large, 64 * 4, kPicture);
  const auto wanted = [&](const char* part) {
    return std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  if (wanted("rate")) batches_a_second(options, folder, rows);
  if (wanted("served")) cost_by_served(options, folder, rows);
  if (wanted("thousand")) at_a_thousand(options, folder, rows);
  if (wanted("rows")) small_rows(options, folder, small ? 0.1 : 1);
  if (wanted("large")) large_batches(options, folder, large, 64 * kPicture * sizeof(float));
  if (wanted("gets")) gets(options, folder, rows, 64 * 256, 32 * sizeof(float));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return bench(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_service: %s\n", error.what());
    return 1;
  }
}
