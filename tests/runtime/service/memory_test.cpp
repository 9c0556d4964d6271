// What a service takes of the machine's memory, measured from outside while jobs come and go.
#include <random>

#include "tests/runtime/service/daemon.h"
#include "tests/runtime/service/live.h"
#include "tests/runtime/service/memory_watch.h"
#include "tests/runtime/service/status.h"

namespace batchflow::test::memory_test {
namespace {

struct Data {
  static constexpr std::uint64_t kRows = 3000;  // of 64 KiB
  static constexpr std::uint64_t kFiles = 1500;
  Folder folder;
  std::string socket = folder.path() / "b.sock";
  Data() {
    std::filesystem::create_directory(folder.path() / "rows");
    write_rows(folder.path() / "rows" / "rows.npy", kRows, 8192);
    std::filesystem::create_directory(folder.path() / "files");
    std::mt19937 chance(3);
    const std::string bytes(300'000, 'x');
    for (std::uint64_t k = 0; k < kFiles; ++k) {
      std::ofstream out(folder.path() / "files" / fmt::format("{:05}.bin", k), std::ios::binary);
      out.write(bytes.data(), static_cast<std::streamsize>(1 + chance() % bytes.size()));
    }
  }
  std::vector<std::string> arguments(const std::string& memory) const {
    return {"--dataset", "rows=" + (folder.path() / "rows").string(),
            "--dataset", "files=" + (folder.path() / "files").string() + ",pipeline=bytes",
            "--memory",  memory,
            "--workers", "2",
            "--http",    "-1",
            "--socket",  socket,
            "--state",   folder.path() / "state"};
  }
};

// Takes so many batches, and holds some of them for a while. Empty, or what went wrong.
std::string take(const std::string& service, const char* dataset, bf_order order,
                 std::uint32_t batch_samples, std::uint64_t batches) {
  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  options.service = service.c_str();
  options.dataset = dataset;
  options.batch_samples = batch_samples;
  options.order = order;
  options.timeout_s = 60;
  bf_loader* loader = nullptr;
  if (bf_loader_open(&options, &loader) != BF_OK) return bf_last_error();
  bf_batch batch = BF_BATCH_INIT;
  std::string wrong;
  for (std::uint64_t i = 0; i < batches && wrong.empty(); ++i) {
    const bf_status status = bf_loader_next(loader, &batch);
    if (status == BF_END) break;
    if (status != BF_OK) {
      wrong = bf_last_error();
    } else {
      bf_batch_release(loader, batch.handle);
    }
  }
  bf_loader_close(loader);
  return wrong;
}

// Jobs of all kinds join and leave, so many at once, for so many rounds.
void load(const Data& data, int rounds, int at_once, std::uint64_t batches) {
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::string> wrong(static_cast<std::size_t>(at_once));
    std::vector<std::thread> jobs;
    for (int i = 0; i < at_once; ++i) {
      jobs.emplace_back([&, i] {
        const bool rows = (round + i) % 2 == 0;
        const auto order = static_cast<bf_order>(i % 3 == 0 ? BF_STRICT : BF_RELAXED);
        wrong[static_cast<std::size_t>(i)] =
            take(data.socket, rows ? "rows" : "files", order,
                 static_cast<std::uint32_t>(3 + 7 * ((round * 5 + i) % 4)), batches);
      });
    }
    for (std::thread& job : jobs) job.join();
    // One for which there is no room beside the others is told so at once, with numbers.
    for (const std::string& one : wrong)
      CHECK((one == "" || one.find("there is no room for its batches") != std::string::npos));
  }
}

void check_bound(const Data& data, const std::string& memory, Bytes bytes, int rounds, int at_once,
                 std::uint64_t batches, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = data.arguments(memory);
  arguments.insert(arguments.end(), more.begin(), more.end());
  Daemon daemon(arguments, data.socket);
  MemoryWatch watch(daemon.process());
  load(data, rounds, at_once, batches);
  const auto status = status_of(data.socket);
  const Bytes most = watch.end();
  MESSAGE(fmt::format("{} MiB of {} at most; {} samples read, {} batches, {} waits", most / kMib,
                      bytes / kMib, status.at("read_samples").get<std::uint64_t>(),
                      status.at("batches").get<std::uint64_t>(),
                      status.at("no_memory").get<std::uint64_t>()));
  if (kMemoryIsMeasured) CHECK(most <= bytes + kMemoryBeside);
  CHECK(most > bytes / 2);  // else nothing was measured
  CHECK(status.at("used_bytes").get<Bytes>() <= status.at("cache_bytes").get<Bytes>());
}

TEST_CASE("while jobs come and go a service takes what it was given, and no more") {
  const Data data;
  check_bound(data, "384mib", 384 * kMib, 3, 3, 120);
}

TEST_SUITE("long") {
  TEST_CASE("for long, with and without a second tier, in little memory and in more") {
    const Data data;
    check_bound(data, "256mib", 256 * kMib, 40, 3, 200);
    check_bound(data, "512mib", 512 * kMib, 40, 6, 200);
    check_bound(data, "320mib", 320 * kMib, 40, 4, 200,
                {"--spill", (data.folder.path() / "drive").string() + ",300mib"});
  }
}

}  // namespace
}  // namespace batchflow::test::memory_test
