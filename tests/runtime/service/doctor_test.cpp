// The doctor names the link that is made slow: storage, preparation, the job itself.
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/failpoint/failpoint.h"
#include "tests/runtime/ctl/program.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test::doctor_test {
namespace {

using nlohmann::json;

constexpr std::size_t kWidth = 16384;  // 128 KiB a sample, 8 of them a block

// A service on 512 samples with one job, which runs until it is killed.
class Clinic {
 public:
  explicit Clinic(const std::string& failpoints, unsigned pause_us = 0, bool ideal = false,
                  bool keep = false) {
    failpoint::configure_failpoints(failpoints);
    service::NodeConfig config = config_in(folder_.path());
    config.workers = 1;
    config.storage.engine = "pread";
    config.storage.threads = 2;
    config.engine.block_bytes = Bytes{1} << 20;
    std::filesystem::create_directory(folder_.path() / "rows");
    write_rows(folder_.path() / "rows" / "rows.npy", 512, kWidth);
    config.datasets.push_back({"rows", folder_.path() / "rows", "", "", 0, {}});
    service_.emplace(config);
    plan_.service = config.socket;
    plan_.name = "train";
    plan_.batch = 8;
    plan_.epochs = 100000;
    plan_.width = kWidth;
    plan_.pause_us = pause_us;
    plan_.ideal = ideal;
    plan_.keep = keep;
    plan_.count = &batches_;
    job_ = std::thread([this] { handed_ = run_job(plan_); });
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (batches_ < 3 && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  // Ends the job. What it was given.
  const Handed& end() {
    run({"job", "kill", "train"});
    if (job_.joinable()) job_.join();
    return handed_;
  }
  // How many batches the job has had.
  std::uint64_t batches() const { return batches_; }
  ~Clinic() {
    end();
    failpoint::configure_failpoints("");
  }
  Outcome run(std::vector<std::string> words) const {
    words.insert(words.begin(), {"--service", plan_.service});
    return run_ctl(words, folder_.path());
  }
  // The one job's diagnosis.
  json diagnose(int code) const {
    const Outcome outcome = run({"doctor", "train", "--seconds", "1.5", "--json"});
    CAPTURE(outcome.err);
    const json told = json::parse(outcome.out, nullptr, false);
    REQUIRE(told.is_object());
    REQUIRE(told.at("jobs").size() == 1);
    CAPTURE(outcome.out);
    CHECK((told.at("node").empty() ? outcome.code : 1) == (told.at("node").empty() ? code : 1));
    return told.at("jobs").at(0);
  }

 private:
  Folder folder_;
  std::optional<LiveService> service_;
  JobPlan plan_;
  std::atomic<std::uint64_t> batches_{0};
  Handed handed_;  // once it has ended
  std::thread job_;
};

bool has(const json& texts, const std::string& part) {
  for (const json& text : texts) {
    if (text.get<std::string>().find(part) != std::string::npos) return true;
  }
  return false;
}

// The first number behind `words` in one of the facts.
double number_behind(const json& facts, const std::string& words) {
  for (const json& fact : facts) {
    const std::string text = fact.get<std::string>();
    const std::size_t at = text.find(words);
    if (at != std::string::npos) return std::stod(text.substr(at + words.size()));
  }
  return -1;
}

TEST_CASE("slow storage is named, with its rate and the demand") {
  const Clinic clinic("storage.read.error=delay-60", 10'000);
  const json found = clinic.diagnose(1);
  CHECK(found.at("slow_link") == "storage");
  CHECK(found.at("stalled_ratio").get<double>() > 0.5);
  CHECK(has(found.at("facts"), "storage (pread: 2 threads"));
  CHECK(has(found.at("facts"), "if it never waited"));
  CHECK(has(found.at("advice"), "batchflowctl pack"));
}

TEST_CASE("an expensive preparation is named, with its workers") {
  const Clinic clinic("service.prepare.memory=delay-200");
  const json found = clinic.diagnose(1);
  CHECK(found.at("slow_link") == "preparation");
  CHECK(found.at("stalled_ratio").get<double>() > 0.5);
  CHECK(has(found.at("facts"), "1 workers of at most 1 were busy"));
  CHECK(number_behind(found.at("facts"), "a sample takes ") >= 25);  // 200 ms a block of 8
  CHECK_MESSAGE(has(found.at("advice"), "workers"), found.dump());

  const Outcome explained = clinic.run({"explain", "train"});
  CHECK(explained.code == 0);
  CHECK(explained.out.find("job 'train' on 'rows' waits for a batch with 1 of 1 ranks") == 0);
}

TEST_CASE("a machine without pages is named, and not storage or preparation") {
  const Clinic clinic("");
  failpoint::configure_failpoints("service.prepare.memory=fail");
  const json found = clinic.diagnose(1);
  CHECK(found.at("slow_link") == "room");
  CHECK_MESSAGE(has(found.at("facts"), "wait for memory"), found.dump());
  CHECK_MESSAGE(has(found.at("advice"), "has no pages for what the service may use"), found.dump());
}

TEST_CASE("a job that allows it is given a batch again, in place and as a copy") {
  for (const bool keeps : {false, true}) {
    CAPTURE(keeps);
    Clinic clinic("storage.read.error=delay-20", 5'000, true, keeps);
    const Outcome outcome = clinic.run({"doctor", "train", "--ideal=1s", "--json"});
    const json told = json::parse(outcome.out, nullptr, false);
    REQUIRE_MESSAGE(told.is_object(), outcome.err);
    const json& ideal = told.at("jobs").at(0).at("ideal");
    REQUIRE_MESSAGE(ideal.at("is_measured").get<bool>(), ideal.dump());
    CHECK(ideal.at("ideal_step_s").get<double>() >= 0.005);
    CHECK(ideal.at("gain_ratio").get<double>() > 0);
    const std::uint64_t steps = ideal.at("steps").get<std::uint64_t>();
    // The job goes on, until its epoch is over at least.
    const std::uint64_t enough = clinic.batches() + 64;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (clinic.batches() < enough && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const Handed& handed = clinic.end();
    CHECK(handed.wrong.find("an operator ended this job") != std::string::npos);
    CHECK(handed.again == steps);
    REQUIRE(handed.epochs.contains(0));
    CHECK(is_whole(handed.epochs.at(0), 512));
  }
}

TEST_CASE("a slow job is told that nothing here would make it faster") {
  const Clinic clinic("", 400'000);
  const json found = clinic.diagnose(0);
  CHECK(found.at("slow_link") == "none");
  CHECK(found.at("stalled_ratio").get<double>() < 0.05);
  CHECK(has(found.at("facts"), "it computes"));
  CHECK(number_behind(found.at("facts"), "a step of 8 samples takes ") >= 395);
  const Outcome outcome = clinic.run({"doctor", "nobody"});
  CHECK(outcome.code == 1);
  CHECK(outcome.err.find("no job is called 'nobody'") != std::string::npos);
}

}  // namespace
}  // namespace batchflow::test::doctor_test
