// Jobs that bring their pipeline's steps instead of a name.
#include "tests/runtime/service/live.h"
#include "tests/runtime/service/status.h"

namespace batchflow::test::brought_pipeline_test {
namespace {

constexpr std::uint64_t kRows = 300;

struct Rows {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  Rows() {
    std::filesystem::create_directory(folder.path() / "rows");
    write_rows(folder.path() / "rows" / "rows.npy", kRows, 16);
    config.datasets.push_back({"rows", folder.path() / "rows", {}, {}, 0, {}});
  }
  JobPlan plan(const std::string& pipeline) const {
    JobPlan made;
    made.service = config.socket;
    made.pipeline = pipeline;
    made.epochs = 1;
    return made;
  }
};

std::string text(const std::string& name) {
  return R"({"kind": "pipeline", "name": ")" + name + R"(", "steps": []})";
}

TEST_CASE("a job brings its steps; jobs with the same ones share them, whatever they call them") {
  const Rows rows;
  const LiveService service(rows.config);
  std::string pipelines;
  for (const char* name : {"one", "two"}) {
    std::atomic<std::uint64_t> batches{0};
    JobPlan plan = rows.plan(text(name));
    plan.count = &batches;
    plan.pause_us = 50'000;
    Handed handed;
    std::thread job([&] { handed = run_job(plan); });
    while (batches == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const auto jobs = status_of(rows.config.socket)["jobs"];
    REQUIRE(jobs.size() == 1);
    const std::string pipeline = jobs[0]["pipeline"];
    CHECK(pipeline.size() == 17);
    CHECK(pipeline.front() == '#');
    CHECK((pipelines.empty() || pipelines == pipeline));
    pipelines = pipeline;
    job.join();
    CHECK(handed.wrong == "");
    CHECK(handed.epochs[0].size() == kRows);
  }
}

TEST_CASE("what cannot be a pipeline is refused in the reader's words, and bounded") {
  const Rows rows;
  const LiveService service(rows.config);
  const auto refusal = [&](const std::string& pipeline) {
    return run_job(rows.plan(pipeline)).wrong;
  };
  CHECK(refusal("{").find("the job's pipeline:") != std::string::npos);
  CHECK(refusal(R"({"kind": "pipeline", "name": "x", "steps": [{"plugin": "/tmp/x.so"}]})")
            .find("a job cannot bring a pipeline with a plugin") != std::string::npos);
  CHECK(refusal(R"({"kind": "pipeline", "name": "x", "steps": [{"step": "grow"}]})").find("grow") !=
        std::string::npos);
  CHECK(refusal(R"({"kind": "pipeline", "name": "x", "steps": )" + std::string(40, '[') + "]}")
            .find("the job's pipeline:") != std::string::npos);
  CHECK(refusal(text(std::string(70'000, 'x'))).find("bytes") != std::string::npos);
  // A service keeps so many of one user's; those that no job uses make room.
  std::string last;
  for (int i = 0; i < 300 && last.empty(); ++i) last = refusal(text(std::to_string(i)));
  CHECK(last == "");
  CHECK(refusal(text("7")) == "");
}

TEST_CASE("many texts of one pipeline are one pipeline, while a job uses it") {
  const Rows rows;
  const LiveService service(rows.config);
  const std::string slow = text("slow");
  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  options.service = rows.config.socket.c_str();
  options.dataset = "rows";
  options.pipeline = slow.c_str();
  options.batch_samples = 32;
  bf_loader* loader = nullptr;
  REQUIRE(bf_loader_open(&options, &loader) == BF_OK);
  std::string last;
  for (int i = 0; i < 300 && last.empty(); ++i) {
    JobPlan other = rows.plan(text(std::to_string(i)));
    other.batches_most = 1;
    last = run_job(other).wrong;
  }
  bf_loader_close(loader);
  CHECK(last == "");
}

}  // namespace
}  // namespace batchflow::test::brought_pipeline_test
