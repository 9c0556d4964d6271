// Cost of handing over a batch: the ring alone, and bf_loader_next with bf_batch_release on batches
// in place. The service is another process of this program, which does nothing else.
//
// Beside it stands the same by a bare futex: a word in shared memory, and a reader that sleeps on
// it.
//
//   bench_rings [--small]
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/client/batchflow.h"
#include "tests/runtime/client/fake_service.h"

using namespace batchflow;

namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
}

// REQUIRES: there are some, in order
double time_at(const std::vector<std::uint64_t>& times_ns, double share) {
  const auto place = static_cast<std::size_t>(share * static_cast<double>(times_ns.size() - 1));
  return static_cast<double>(times_ns[place]) / 1000;
}

void print(const char* what, std::vector<std::uint64_t>& times_ns) {
  std::sort(times_ns.begin(), times_ns.end());
  const auto at = [&](double share) { return time_at(times_ns, share); };
  fmt::print("{:<58} p50 {:7.2f} us  p99 {:7.2f} us  worst {:8.2f} us\n", what, at(.5), at(.99),
             at(1));
}

// The CPU time of this thread, which other programs of the machine do not change.
std::uint64_t cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

void stay_on(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  sched_setaffinity(0, sizeof set, &set);
}

// Which processors this program may run on; the first and the last of them.
std::pair<int, int> two_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::pair<int, int> two{-1, 0};
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &set)) continue;
    if (two.first < 0) two.first = i;
    two.second = i;
  }
  return two;
}

template <class Body>
pid_t in_another_process(Body body, int processor = -1) {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (processor >= 0) stay_on(processor);
  body();
  _exit(0);
}

// The time from before a record is written until the other process has read it. `pause_us` between
// records: the reader sleeps meanwhile, as a job does that waits for its batch.
std::vector<std::uint64_t> hand_over(std::size_t records, unsigned pause_us, int processor = -1) {
  std::string problem;
  protocol::RingFiles files = protocol::make_rings(protocol::kRingLeast, problem);
  if (!files) {
    fmt::print(stderr, "bench_rings: {}\n", problem);
    std::exit(1);
  }
  const protocol::Rings job =
      protocol::map_rings(files.service_file, files.job_file, protocol::kRingLeast, problem);
  const pid_t service = in_another_process(
      [&] {
        protocol::RingWriter writer(files.rings.to_job());
        for (std::size_t i = 0; i < records; ++i) {
          if (pause_us != 0) usleep(pause_us);
          const std::uint64_t sent = now_ns();
          protocol::BatchRecord record;
          record.step = sent;
          while (!writer.write(protocol::bytes_of(record))) {
          }
          if (writer.publish()) writer.wake();
        }
      },
      processor);
  protocol::RingReader reader(job.to_job());
  std::vector<std::uint64_t> times;
  while (times.size() < records) {
    if (!reader.wait(1'000'000'000)) break;
    while (const auto bytes = reader.next()) {
      protocol::BatchRecord record;
      std::memcpy(&record, bytes->data(), sizeof record);
      times.push_back(now_ns() - record.step);
    }
    reader.free_read();
  }
  waitpid(service, nullptr, 0);
  return times;
}

// The same by a futex alone: the writer sets a word and wakes the other process, which sleeps on
// it.
std::vector<std::uint64_t> hand_over_by_futex(std::size_t records, unsigned pause_us,
                                              int processor) {
  struct Page {
    std::atomic<std::uint32_t> word;
    std::atomic<std::uint64_t> sent_ns;
  };
  void* memory =
      mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::exit(1);
  auto& page = *new (memory) Page{};
  const pid_t writer = in_another_process(
      [&] {
        for (std::size_t i = 0; i < records; ++i) {
          usleep(pause_us);
          page.sent_ns.store(now_ns(), std::memory_order_relaxed);
          page.word.fetch_add(1, std::memory_order_release);
          protocol::futex_wake(&page.word);
        }
      },
      processor);
  std::vector<std::uint64_t> times;
  for (std::uint32_t had = 0; had < records;) {
    protocol::futex_wait(page.word, had, 1'000'000'000);
    const std::uint32_t now = page.word.load(std::memory_order_acquire);
    if (now == had) break;
    times.push_back(now_ns() - page.sent_ns.load(std::memory_order_relaxed));
    had = now;
  }
  waitpid(writer, nullptr, 0);
  munmap(memory, sizeof(Page));
  return times;
}

// To a reader that sleeps, by a ring and by a futex in turn: another hour has other times of both.
// Each end stays on a processor of its own where there are two: to wake a process on the waker's
// own processor takes a third of the time, and the scheduler's choice depends on what was done
// before.
void hand_over_beside_futex(std::size_t records) {
  std::vector<double> ratios;
  std::vector<std::uint64_t> ring, futex;
  cpu_set_t before;
  sched_getaffinity(0, sizeof before, &before);
  const auto [here, there] = two_processors();
  stay_on(here);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::uint64_t> by_ring = hand_over(records, 100, there);
    std::vector<std::uint64_t> by_futex = hand_over_by_futex(records, 100, there);
    if (by_ring.empty() || by_futex.empty()) std::exit(1);
    std::sort(by_ring.begin(), by_ring.end());
    std::sort(by_futex.begin(), by_futex.end());
    ratios.push_back(time_at(by_ring, .5) / time_at(by_futex, .5));
    ring.insert(ring.end(), by_ring.begin(), by_ring.end());
    futex.insert(futex.end(), by_futex.begin(), by_futex.end());
  }
  sched_setaffinity(0, sizeof before, &before);
  print("a record to a reader that sleeps", ring);
  print("a word to a process that sleeps, by a futex alone", futex);
  std::sort(ratios.begin(), ratios.end());
  fmt::print("the first over the second, p50, five rounds in turn: {:.2f} ({:.2f} to {:.2f})\n",
             ratios[2], ratios.front(), ratios.back());
}

// Of batches that are there already.
void next_and_release(std::uint64_t batches) {
  char folder[] = "/tmp/batchflow-bench-XXXXXX";
  if (mkdtemp(folder) == nullptr) std::exit(1);
  const std::string path = std::string(folder) + "/s";
  const protocol::Descriptor listener = test::listen_at(path);
  test::Script script;
  script.samples = 256;
  script.epochs = static_cast<std::uint32_t>(batches / 4);
  const pid_t service = in_another_process([&] { test::FakeService(listener, script).serve(); });
  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  options.service = path.c_str();
  options.dataset = "things";
  options.batch_samples = 64;
  options.credits = 12;
  options.order = BF_SEQUENTIAL;
  bf_loader* loader = nullptr;
  if (bf_loader_open(&options, &loader) != BF_OK) {
    fmt::print(stderr, "bench_rings: {}\n", bf_last_error());
    std::exit(1);
  }
  std::vector<std::uint64_t> times;
  bf_batch batch = BF_BATCH_INIT;
  for (;;) {
    // The service fills as many batches as credits allow, so that only this side is measured.
    if (times.size() % 8 == 0) usleep(2000);
    const std::uint64_t begin = cpu_ns();
    if (bf_loader_next(loader, &batch) != BF_OK) break;
    bf_batch_release(loader, batch.handle);
    times.push_back(cpu_ns() - begin);
  }
  bf_loader_close(loader);
  waitpid(service, nullptr, 0);
  std::filesystem::remove_all(folder);
  print("bf_loader_next and bf_batch_release in place, CPU time", times);
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = argc == 2 && std::string_view(argv[1]) == "--small";
  if (argc > 1 && !small) {
    fmt::print(stderr, "bench_rings: unknown argument; write --small or nothing\n");
    return 2;
  }
  const std::size_t records = small ? 200 : 20'000;
  std::vector<std::uint64_t> times = hand_over(records, 0);
  print("a record, one after the other", times);
  hand_over_beside_futex(records / 10);
  next_and_release(records / 10);
  return 0;
}
