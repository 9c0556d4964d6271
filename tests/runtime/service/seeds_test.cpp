// Jobs of several seeds over one dataset under every size of memory that admits them: none may
// stop, each has every sample once an epoch, and the service takes what it was given. All of it is
// seen from outside.
#include <atomic>
#include <deque>

#include "tests/runtime/service/daemon.h"
#include "tests/runtime/service/live.h"
#include "tests/runtime/service/memory_watch.h"
#include "tests/runtime/service/status.h"

namespace batchflow::test::seeds_test {
namespace {

constexpr std::size_t kWidth = 12'500;  // numbers of a row: 100 KB

struct Rows {
  Folder folder;
  std::string socket = folder.path() / "b.sock";
  std::uint64_t count;
  explicit Rows(std::uint64_t rows) : count(rows) {
    std::filesystem::create_directory(folder.path() / "rows");
    write_rows(folder.path() / "rows" / "rows.npy", rows, kWidth);
  }
  std::vector<std::string> arguments(Bytes memory, int workers) const {
    return {"--dataset", "rows=" + (folder.path() / "rows").string(),
            "--memory",  fmt::format("{}mib", memory / kMib),
            "--workers", std::to_string(workers),
            "--http",    "-1",
            "--socket",  socket,
            "--state",   folder.path() / "state"};
  }
};

struct Job {
  std::atomic<std::uint64_t> batches{0};
  std::atomic<bool> over{false};
  bool admitted = false;
  std::string wrong;
  std::vector<std::uint64_t> keys;
};

// One epoch in an order of its own. No call waits longer than a batch may take where one worker
// makes all that all jobs have asked for.
void train(const Rows& rows, std::uint64_t seed, Job& job) {
  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  options.service = rows.socket.c_str();
  options.dataset = "rows";
  options.batch_samples = 32;
  options.order = BF_RELAXED;
  options.has_shuffle_seed = 1;
  options.shuffle_seed = seed;
  options.epochs = 1;
  options.timeout_s = 60;
  bf_loader* loader = nullptr;
  if (bf_loader_open(&options, &loader) != BF_OK) {
    job.wrong = bf_last_error();
  } else {
    job.admitted = true;
    bf_batch batch = BF_BATCH_INIT;
    bf_status status = BF_OK;
    while ((status = bf_loader_next(loader, &batch)) == BF_OK) {
      ++job.batches;
      const auto* values = static_cast<const std::int64_t*>(batch.arrays[0].values);
      for (std::uint32_t i = 0; i < batch.samples; ++i) {
        if ((batch.marks[i] & BF_MARK_FILLER) == 0) job.keys.push_back(batch.keys[i]);
        if (values[i * kWidth] != value_at(batch.keys[i], 0)) job.wrong = "another row";
      }
      bf_batch_release(loader, batch.handle);
    }
    if (status != BF_END) job.wrong = bf_last_error();
    bf_loader_close(loader);
  }
  job.over = true;
}

// So many jobs at once in so much memory.
void run_seeds(const Rows& rows, Bytes memory, int workers, std::size_t count) {
  CAPTURE(memory / kMib);
  CAPTURE(workers);
  CAPTURE(count);
  Daemon daemon(rows.arguments(memory, workers), rows.socket);
  MemoryWatch watch(daemon.process());
  std::deque<Job> jobs(count);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i)
    threads.emplace_back([&rows, &jobs, i] { train(rows, i + 1, jobs[i]); });
  for (std::thread& thread : threads) thread.join();
  const auto status = status_of(rows.socket);
  const Bytes most = watch.end();
  std::size_t admitted = 0;
  for (const Job& job : jobs) {
    admitted += job.admitted ? 1 : 0;
    // One for which there is no room beside the others is told so at once, with numbers.
    const bool has_room = job.wrong.find("there is no room for its batches") == std::string::npos;
    if (job.admitted || has_room) CHECK(job.wrong == "");
    if (job.admitted) CHECK(is_whole(job.keys, rows.count));
  }
  CHECK(admitted > 0);
  MESSAGE(
      fmt::format("{} MiB of {} at most; {} of {} jobs, {} workers; staged {} of {} MiB, {} "
                  "beside; {} waits",
                  most / kMib, memory / kMib, admitted, count, workers,
                  status.at("staged_bytes_most").get<Bytes>() / kMib,
                  status.at("staging_bytes").get<Bytes>() / kMib,
                  status.at("unregistered_staging").get<std::uint64_t>(),
                  status.at("no_memory").get<std::uint64_t>()));
  CHECK(status.at("staged_bytes_most").get<Bytes>() <= status.at("staging_bytes").get<Bytes>());
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // they take memory of their own
  // A slab that was given back has no pages, and counts here until its jobs have unmapped it.
  CHECK(most <= memory + 64 * kMib);
#endif
}

TEST_CASE("jobs of two seeds end in little memory and in more, with few workers and with many") {
  const Rows rows(1500);
  run_seeds(rows, 208 * kMib, 4, 2);
  run_seeds(rows, 320 * kMib, 16, 2);
  run_seeds(rows, 512 * kMib, 2, 3);
}

TEST_SUITE("long") {
  TEST_CASE("two to eight jobs of several seeds in memory of any size") {
    const Rows rows(20'000);
    for (const std::size_t count : {8}) {
      for (const int workers : {16, 2, 4}) {
        for (const Bytes memory : {200, 400, 600, 1000, 1400})
          run_seeds(rows, memory * kMib, workers, count);
      }
    }
  }
}

}  // namespace
}  // namespace batchflow::test::seeds_test
