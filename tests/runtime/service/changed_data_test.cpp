// A data set that is another one than its index says: told apart at once, never mixed.
#include <atomic>

#include "tests/runtime/service/daemon.h"
#include "tests/runtime/service/seen.h"

namespace batchflow::test {
namespace {

struct Place {
  Folder folder;
  std::string socket = folder.path() / "b.sock";
  std::filesystem::path rows = folder.path() / "rows";
  std::vector<std::string> arguments = {"--dataset", "rows=" + rows.string(),
                                        "--memory",  "512mib",
                                        "--http",    "-1",
                                        "--socket",  socket,
                                        "--state",   folder.path() / "state"};
  Place() {
    std::filesystem::create_directory(rows);
    write_rows(rows / "rows.npy", 4000, 16);
  }
  JobPlan plan() const {
    JobPlan made;
    made.service = socket;
    return made;
  }
};

bool reaches(const std::atomic<std::uint64_t>& count, std::uint64_t least) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (count < least && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return count >= least;
}

// A job does not go on in other data as if it were the same; who begins anew has the new data.
TEST_CASE(
    "data that has changed while the service was away ends its jobs, in words, and is served") {
  Place place;
  Daemon daemon(place.arguments, place.socket);
  JobPlan plan = place.plan();
  plan.pause_us = 3000;
  plan.epochs = 100;
  std::atomic<std::uint64_t> batches{0};
  plan.count = &batches;
  Handed handed;
  std::thread job([&] { handed = run_job(plan); });
  CHECK(reaches(batches, 20));
  CHECK(daemon.kill(SIGKILL) == -SIGKILL);
  write_rows(place.rows / "rows.npy", 3000, 16);
  daemon.start();
  job.join();
  CHECK_MESSAGE(handed.wrong.find("the state does not fit this dataset") != std::string::npos,
                handed.wrong);
  CHECK(handed.wrong.find("begin without a state, or restore the dataset") != std::string::npos);
  plan = place.plan();
  const Handed anew = run_job(plan);
  CHECK(anew.wrong == "");
  REQUIRE(anew.epochs.size() == 2);
  for (const auto& [epoch, keys] : anew.epochs) CHECK(is_whole(keys, 3000));
}

// By their sizes: whoever has the index knows no more of them.
TEST_CASE("files that are replaced by shorter ones count as corrupt, and the rest is served") {
  constexpr std::uint64_t kFiles = 400;
  Folder folder;
  NodeConfig config = config_in(folder.path());
  const auto data = folder.path() / "data";
  std::filesystem::create_directory(data);
  const auto name = [&](std::uint64_t file) { return data / fmt::format("{:03}.bin", file); };
  for (std::uint64_t file = 0; file < kFiles; ++file)
    std::ofstream(name(file)) << std::string(1000, 'a');
  config.engine.corrupt_ratio_max = Ratio{Ratio::kWhole / 2};
  config.datasets.push_back({"data", data, "", "", 0, {}});
  const LiveService service(config);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!service.has_said("dataset data: 400 samples") && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  std::vector<std::uint64_t> changed, same;
  for (std::uint64_t file = 0; file < kFiles; ++file) {
    (file % 10 == 3 ? changed : same).push_back(file);
    if (file % 10 != 3) continue;
    std::ofstream(folder.path() / "new") << std::string(500, 'b');
    std::filesystem::rename(folder.path() / "new", name(file));
  }
  JobPlan plan;
  plan.service = config.socket;
  plan.dataset = "data";
  plan.pipeline = "bytes";
  const Seen seen = see(plan);
  CHECK(seen.wrong == "");
  REQUIRE(seen.good.size() == 2);
  for (const auto& [epoch, keys] : seen.good) CHECK(sorted(keys) == same);
  for (const auto& [epoch, keys] : seen.replaced) CHECK(sorted(keys) == changed);
  CHECK(service.has_said("the data set has changed since it was indexed, or is damaged"));
}

}  // namespace
}  // namespace batchflow::test
