// Cost of handing over a batch: the ring alone, and bf_loader_next with bf_batch_release on batches
// in place. The service is another process of this program, which does nothing else.
//
//   bench_rings [--small]
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/client/batchflow.h"
#include "tests/runtime/client/fake_service.h"

using namespace batchflow;

namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
}

void print(const char* what, std::vector<std::uint64_t>& times_ns) {
  std::sort(times_ns.begin(), times_ns.end());
  const auto at = [&](double share) {
    const auto place = static_cast<std::size_t>(share * static_cast<double>(times_ns.size() - 1));
    return static_cast<double>(times_ns[place]) / 1000;
  };
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

template <class Body>
pid_t in_another_process(Body body) {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  body();
  _exit(0);
}

// The time from before a record is written until the other process has read it. `pause_us` between
// records: the reader sleeps meanwhile, as a job does that waits for its batch.
void hand_over(std::size_t records, unsigned pause_us, const char* what) {
  std::string problem;
  protocol::RingFiles files = protocol::make_rings(protocol::kRingLeast, problem);
  if (!files) {
    fmt::print(stderr, "bench_rings: {}\n", problem);
    std::exit(1);
  }
  const protocol::Rings job =
      protocol::map_rings(files.service_file, files.job_file, protocol::kRingLeast, problem);
  const pid_t service = in_another_process([&] {
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
  });
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
  print(what, times);
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
  hand_over(records, 0, "a record, one after the other");
  hand_over(records / 10, 100, "a record to a reader that sleeps");
  next_and_release(records / 10);
  return 0;
}
