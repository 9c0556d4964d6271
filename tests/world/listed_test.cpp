// Jobs that ask for the samples of each batch in a simulated world, checked by what they trained
// on.
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tests/world/harness.h"

namespace batchflow::test::listed_test {

namespace {

constexpr std::uint64_t kSamples = 96;
constexpr std::uint64_t kSteps = 6;  // of an epoch: two ranks, eight samples each

// Two nodes with one rank each; the memory of each holds all samples.
std::string two_nodes(const std::string& job, const std::string& more = "",
                      const std::string& other_job = "") {
  return fmt::format(
      "cluster: {{nodes: [{{name: n, count: 2, gpus: 1, cores: 1, memory: 1gb}}], store: {{}}}}\n"
      "datasets: [{{name: data, samples: {}, bytes: 1000}}]\n"
      "pipelines: [{{name: stored, steps: []}}]\n"
      "jobs: [{{name: a, dataset: data, pipeline: stored, order: listed, batch: 8, ranks: 2,\n"
      "         step: 10ms, epochs: 3, {}}}{}]\n{}",
      kSamples, job, other_job.empty() ? "" : ", {" + other_job + "}", more);
}

struct Trained {
  output::RunResult run;
  std::vector<std::vector<std::uint64_t>> epochs;  // their samples, step by step
};

Trained train(const std::string& yaml) {
  std::string path = (std::filesystem::temp_directory_path() / "batchflow-batches-XXXXXX").string();
  REQUIRE(::close(::mkstemp(path.data())) == 0);
  const input::Scenario scenario = scenario_of(yaml);
  Trained out;
  out.run = output::decode_run(in_child([&] {
    sim::SimulateOptions options;
    options.batches = path;
    return output::encode_run(sim::simulate(scenario, options));
  }));
  check_conservation(scenario, out.run);
  std::map<std::uint64_t, std::uint64_t> steps;  // that each rank has taken
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto batch = nlohmann::json::parse(line);
    if (batch["job"] != "a") continue;
    const std::uint64_t epoch = steps[batch["rank"].get<std::uint64_t>()]++ / kSteps;
    out.epochs.resize(std::max<std::size_t>(out.epochs.size(), epoch + 1));
    for (const auto& sample : batch["samples"]) out.epochs[epoch].push_back(sample);
  }
  std::filesystem::remove(path);
  return out;
}

void has_each_sample_once_an_epoch(const Trained& trained, std::uint64_t epochs = 3) {
  CHECK(trained.run.jobs[0].state == "done");
  CHECK(trained.run.jobs[0].epochs == epochs);
  REQUIRE(trained.epochs.size() == epochs);
  std::vector<std::uint64_t> all(kSamples);
  std::iota(all.begin(), all.end(), 0);
  for (std::vector<std::uint64_t> epoch : trained.epochs) {
    CHECK(epoch != all);
    std::sort(epoch.begin(), epoch.end());
    CHECK(epoch == all);
  }
  for (std::size_t i = 1; i < epochs; ++i) CHECK(trained.epochs[i] != trained.epochs[0]);
}

}  // namespace

TEST_CASE("a job that lists its samples has each once an epoch, in another order each time") {
  const Trained trained = train(two_nodes("shuffle_seed: 3"));
  has_each_sample_once_an_epoch(trained);
  // All nodes together read a sample once, and no worker touches it.
  CHECK(trained.run.aggregate.samples_read == kSamples);
  CHECK(trained.run.aggregate.samples_requested == 3 * kSamples);
  CHECK(trained.run.aggregate.network_bytes > 0);
  CHECK(trained.run.aggregate.preparations == 0);
  CHECK(train(two_nodes("shuffle_seed: 3")).epochs == trained.epochs);
  CHECK(train(two_nodes("shuffle_seed: 4")).epochs != trained.epochs);
}

TEST_CASE("the last step of an epoch is filled, or left out") {
  // Steps of two batches of 20.
  const std::string steps = "batch: 20";
  const auto with = [&](const std::string& more) {
    std::string yaml = two_nodes(more);
    yaml.replace(yaml.find("batch: 8"), 8, steps);
    return simulate_text(yaml).jobs[0];
  };
  const output::JobResult filled = with("drop_last: false");
  CHECK(filled.samples == 3 * kSamples);
  CHECK(filled.fillers == 3 * (120 - kSamples));
  CHECK(filled.batches == 3 * 3 * 2);
  const output::JobResult dropped = with("drop_last: true");
  CHECK(dropped.samples == 3 * 80);
  CHECK(dropped.fillers == 0);
  CHECK(dropped.epochs == 3);
}

TEST_CASE("a list goes on where it was after the loss of a node") {
  for (const char* job : {"weight: 1", "checkpoint: {every: 4}"}) {
    CAPTURE(job);
    const Trained trained = train(
        two_nodes(job, "faults: [{kind: node-lost, target: n-1, at: 134ms, lasts: 500ms}]\n"));
    CHECK(trained.run.jobs[0].restarts == 1);
    CHECK(trained.run.jobs[0].state == "done");
    CHECK(trained.run.jobs[0].epochs == 3);
    CHECK(trained.run.jobs[0].samples == 3 * kSamples);
    if (trained.run.jobs[0].repeated_samples == 0) has_each_sample_once_an_epoch(trained);
  }
}

TEST_CASE("a list goes on where it was after another job has had its GPUs") {
  // After half an hour the first job has had an hour of GPUs, and makes room.
  std::string yaml =
      two_nodes("weight: 1", "scheduler: las\n",
                "name: b, dataset: data, pipeline: stored, batch: 8, ranks: 2, step: 1min, "
                "arrives: 2410s");
  yaml.replace(yaml.find("step: 10ms"), 10, "step: 5min");
  const Trained trained = train(yaml);
  CHECK(trained.run.jobs[0].preemptions == 1);
  has_each_sample_once_an_epoch(trained);
}

TEST_CASE("orders that cannot be listed are refused") {
  const auto refusal = [](const std::string& yaml) {
    try {
      scenario_of(yaml);
      return std::string();
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
  };
  std::string worked = two_nodes("weight: 1");
  worked.replace(worked.find("steps: []"), 9, "steps: [{name: work, cost: 1ms}]");
  CHECK(refusal(worked).find("pipeline 'stored' has steps") != std::string::npos);
  CHECK(refusal(two_nodes("rehearsal: {samples: 1, exemplars: 5}"))
            .find("a list names all of its samples") != std::string::npos);
  CHECK(refusal(two_nodes("weight: 1", "grain: {epochs_per_block: 3}\n"))
            .find("here blocks stand for epochs") != std::string::npos);
}

}  // namespace batchflow::test::listed_test
