// Reading ahead: by the engine, for jobs that come later, and nothing of it is a job that people
// see.
#include <sys/resource.h>

#include "tests/runtime/service/command.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test::warm_test {
namespace {

using nlohmann::json;
constexpr std::uint64_t kRows = 5000;

struct Rows {
  Folder folder;
  service::NodeConfig config;
  Rows() : config(config_in(folder.path())) {
    std::filesystem::create_directory(folder.path() / "rows");
    write_rows(folder.path() / "rows" / "rows.npy", kRows, 16);
    config.datasets.push_back({"rows", folder.path() / "rows", "", "", 0});
  }
  json warmed() const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    json one;
    do {
      one = command(config.socket, "warm_list").at("warming").at(0);
      if (one.at("over") == true) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    } while (std::chrono::steady_clock::now() < until);
    return one;
  }
};

// The index is made beside everything else.
json begin(const Rows& rows, const std::string& pipeline = "") {
  json answer;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    answer = command(rows.config.socket, "warm", {{"dataset", "rows"}, {"pipeline", pipeline}});
    if (answer.value("message", "").find("no dataset is called") == std::string::npos) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return answer;
}

TEST_CASE("all of a dataset is read, and a job that comes finds most of it in the cache") {
  Rows rows;
  const LiveService service(rows.config);
  CHECK(begin(rows).at("type") == "answer");
  const json one = rows.warmed();
  CHECK(one.at("over") == true);
  CHECK(one.at("samples") == kRows);
  CHECK(one.at("problem") == "");
  json status = command(rows.config.socket, "status");
  CHECK(status.at("jobs").empty());
  const std::uint64_t read = status.at("read_samples");
  CHECK(read >= kRows);
  CHECK(status.at("item_bytes") > 0);
  CHECK(status.at("protocol_errors") == 0);

  JobPlan plan;
  plan.service = rows.config.socket;
  plan.epochs = 1;
  const Handed handed = run_job(plan);
  CHECK(handed.wrong == "");
  CHECK(is_whole(handed.epochs.at(0), kRows));
  status = command(rows.config.socket, "status");
  // What is read before the engine has given the cache its room is not kept.
  CHECK(status.at("read_samples").get<std::uint64_t>() - read <= kRows / 4);
}

TEST_CASE("reading ahead is explained in little memory") {
  const auto most = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  Rows rows;
  rows.config.explain = true;
  const LiveService service(rows.config);
  const long before = most();
  CHECK(begin(rows).at("type") == "answer");
  CHECK(rows.warmed().at("over") == true);
  CHECK(most() - before < 512 << 10);
}

TEST_CASE("a job that comes while a dataset is read ahead is none the worse for it") {
  Rows rows;
  const LiveService service(rows.config);
  CHECK(begin(rows).at("type") == "answer");
  JobPlan plan;
  plan.service = rows.config.socket;
  const Handed handed = run_job(plan);
  CHECK(handed.wrong == "");
  for (const auto& [epoch, keys] : handed.epochs) CHECK(is_whole(keys, kRows));
  CHECK(rows.warmed().at("samples") == kRows);
}

// Whether nothing of it is kept, soon.
bool leaves(const Rows& rows) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (command(rows.config.socket, "status").at("item_bytes") > 0) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

TEST_CASE("a dataset stays when its last job leaves, until it is dropped") {
  Rows rows;
  const LiveService service(rows.config);
  JobPlan plan;
  plan.service = rows.config.socket;
  plan.epochs = 1;
  const auto reads_of_a_job = [&] {
    const std::uint64_t before = command(rows.config.socket, "status").at("read_samples");
    CHECK(run_job(plan).wrong == "");
    return command(rows.config.socket, "status").at("read_samples").get<std::uint64_t>() - before;
  };
  CHECK(reads_of_a_job() == kRows);
  CHECK(reads_of_a_job() <= kRows / 4);
  CHECK(reads_of_a_job() == 0);
  CHECK(command(rows.config.socket, "drop", {{"dataset", "rows"}}).at("type") == "answer");
  CHECK(leaves(rows));
  CHECK(reads_of_a_job() == kRows);

  CHECK(command(rows.config.socket, "pin", {{"dataset", "rows"}}).at("type") == "answer");
  CHECK(command(rows.config.socket, "status").at("datasets").at(0).at("pinned") == true);
  CHECK(command(rows.config.socket, "unpin", {{"dataset", "rows"}}).at("type") == "answer");
  CHECK(command(rows.config.socket, "status").at("datasets").at(0).at("pinned") == false);
  CHECK(command(rows.config.socket, "drop", {{"dataset", "rows"}}).at("type") == "answer");
  CHECK(leaves(rows));
}

TEST_CASE("a dataset that a job reads is not dropped") {
  Rows rows;
  const LiveService service(rows.config);
  JobPlan plan;
  plan.service = rows.config.socket;
  plan.epochs = 100000;
  plan.name = "reader";
  std::atomic<std::uint64_t> batches{0};
  plan.count = &batches;
  std::thread job([&] { run_job(plan); });
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (batches == 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(command(rows.config.socket, "drop", {{"dataset", "rows"}}).at("message") ==
        "job 'reader' reads dataset 'rows'; drop it when no job does");
  CHECK(command(rows.config.socket, "job_kill", {{"job", "reader"}}).at("type") == "answer");
  job.join();
}

TEST_CASE("a dataset that is pinned keeps its memory against others") {
  Rows rows;
  const auto others = rows.folder.path() / "others";
  std::filesystem::create_directory(others);
  // More than all memory: of what no job reads nothing would stay.
  write_rows(others / "others.npy", 3000, 8192);
  rows.config.datasets.push_back({"others", others, "", "", 0, {}});
  rows.config.memory = Bytes{384} << 20;
  // Not divided anew by what samples cost, which on a machine with other load changes.
  rows.config.engine.policies.allocation = "encoded-first";
  for (const bool pinned : {false, true}) {
    CAPTURE(pinned);
    service::NodeConfig config = rows.config;
    config.datasets[0].pin = pinned;
    const LiveService service(config);
    JobPlan plan;
    plan.service = config.socket;
    plan.epochs = 2;
    CHECK(run_job(plan).wrong == "");
    JobPlan other = plan;
    other.dataset = "others";
    other.width = 8192;
    CHECK(run_job(other).wrong == "");
    const std::uint64_t before = command(config.socket, "status").at("read_samples");
    plan.epochs = 1;
    CHECK(run_job(plan).wrong == "");
    const std::uint64_t again =
        command(config.socket, "status").at("read_samples").get<std::uint64_t>() - before;
    CAPTURE(again);
    CHECK((again == 0) == pinned);
  }
}

TEST_CASE("what cannot be read ahead is said") {
  Rows rows;
  const LiveService service(rows.config);
  CHECK(begin(rows, "none-such").at("type") == "error");
  CHECK(command(rows.config.socket, "warm", {{"dataset", "nobody"}}).at("message") ==
        "no dataset is called 'nobody'; see batchflowctl datasets");
}

}  // namespace
}  // namespace batchflow::test::warm_test
