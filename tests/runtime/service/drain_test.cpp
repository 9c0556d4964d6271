// How a service ends when it is asked to: no job loses a batch, and the service waits
// for no job too long.
#include <atomic>
#include <thread>

#include "tests/runtime/service/served_rows.h"

namespace batchflow::test::drain_test {
namespace {

constexpr std::uint64_t kRows = 20000;
using Clock = std::chrono::steady_clock;

// With a bound on how long it may take to end, and jobs that are as slow as is wanted.
struct Place : ServedRows {
  unsigned pause_us = 1000;
  explicit Place(const std::string& drain) : ServedRows(kRows) {
    std::ofstream(folder.path() / "node.yaml")
        << "kind: node\nmemory: 512mib\nhttp: {port: -1}\ndrain: " << drain << "\ndatasets:\n"
        << "- {name: rows, path: " << rows.string() << "}\n";
    arguments = {"--config", folder.path() / "node.yaml", "--socket", socket,
                 "--state",  folder.path() / "state"};
  }
  JobPlan plan() const {
    JobPlan made = ServedRows::plan();
    made.epochs = 3;
    made.pause_us = pause_us;
    return made;
  }
};

// Waits for what a signal has begun.
int ended(Daemon& daemon) {
  return daemon.kill(0);
}

// One job over two services; `end` ends the first, in its first epoch. What it was handed by then.
template <class End>
std::uint64_t handed_over(const Place& place, End end) {
  Daemon daemon(place.arguments, place.socket);
  JobPlan plan = place.plan();
  std::atomic<std::uint64_t> batches{0};
  plan.count = &batches;
  plan.credits = 3;
  Handed handed;
  std::thread job([&] { handed = run_job(plan); });
  CHECK(reaches(batches, 50));
  end(daemon);
  const std::uint64_t at = batches;
  CHECK_FALSE(std::filesystem::exists(place.socket));
  daemon.start();
  job.join();
  CHECK(handed.wrong == "");
  REQUIRE(handed.epochs.size() == 3);
  for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
  return at;
}

constexpr std::uint64_t kBatches = kRows / 32;  // of an epoch

TEST_CASE("SIGTERM: a job ends its epoch, and goes on at the next start, each sample once") {
  const Place place("60s");
  const std::uint64_t at =
      handed_over(place, [](Daemon& daemon) { CHECK(daemon.kill(SIGTERM) == 0); });
  // The batches of the next epoch that it held already are its own.
  CHECK(at >= kBatches);
  CHECK(at <= kBatches + 8);
}

TEST_CASE("an epoch that takes longer than the bound is cut, and still nothing is lost") {
  Place place("100ms");
  place.pause_us = 3000;
  const auto begin = Clock::now();
  const std::uint64_t at =
      handed_over(place, [](Daemon& daemon) { CHECK(daemon.kill(SIGTERM) == 0); });
  CHECK(at < kBatches);
  CHECK(Clock::now() - begin < std::chrono::seconds(60));
}

TEST_CASE("a second SIGTERM, or SIGINT, ends it at once") {
  Place place("600s");
  place.pause_us = 3000;
  for (const int second : {SIGTERM, SIGINT}) {
    CAPTURE(second);
    const std::uint64_t at = handed_over(place, [&](Daemon& daemon) {
      ::kill(daemon.process(), SIGTERM);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      CHECK(daemon.kill(second) == (second == SIGINT ? 130 : 0));
    });
    CHECK(at < kBatches);
  }
}

TEST_CASE("a job that comes while the service drains waits, and begins with the next one") {
  const Place place("60s");
  Daemon daemon(place.arguments, place.socket);
  JobPlan first = place.plan();
  first.pause_us = 2000;
  std::atomic<std::uint64_t> batches{0};
  first.count = &batches;
  Handed handed, later;
  std::thread job([&] { handed = run_job(first); });
  CHECK(reaches(batches, 10));
  ::kill(daemon.process(), SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::atomic<std::uint64_t> begun{0};
  std::thread other([&] {
    JobPlan plan = place.plan();
    plan.epochs = 1;
    plan.pause_us = 0;
    plan.count = &begun;
    later = run_job(plan);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  CHECK(begun == 0);
  CHECK(ended(daemon) == 0);
  daemon.start();
  other.join();
  job.join();
  CHECK(later.wrong == "");
  CHECK(is_whole(later.epochs[0], kRows));
  CHECK(handed.wrong == "");
  for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
}

}  // namespace
}  // namespace batchflow::test::drain_test
