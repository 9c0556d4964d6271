// What simulated jobs of weighted orders report of their samples, as it was recorded.
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "policies/registry.h"
#include "sim/world/world.h"
#include "tests/world/harness.h"

namespace batchflow::test::scores_test {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSamples = 96;
constexpr std::uint32_t kRecorded = 3;  // epochs
constexpr std::uint64_t kUnknown = 5;   // every so many samples one has no scores

// What is recorded of a sample in an epoch. Of each third sample nothing comes after epoch 0.
float recorded(std::uint64_t sample, std::uint32_t epoch) {
  const std::uint32_t known = sample % 3 == 0 ? 0 : epoch;
  return static_cast<float>(1 + (sample * 7 + known * 3) % 10) / 4;
}

struct Recording {
  fs::path path;
  Recording() {
    std::string name = (fs::temp_directory_path() / "batchflow-scores-XXXXXX").string();
    REQUIRE(::close(::mkstemp(name.data())) == 0);
    path = name;
    std::ofstream file(path);
    file << "# batchflow-scores 1 samples " << kSamples << "\nepoch,key,score\n";
    for (std::uint32_t epoch = 0; epoch < kRecorded; ++epoch) {
      for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
        if (sample % kUnknown == 0 || (epoch > 0 && sample % 3 == 0)) continue;
        file << epoch << ',' << sample << ",9\n";  // the line below counts
        file << fmt::format("{},{},{:.9g}\n", epoch, sample, recorded(sample, epoch));
      }
    }
  }
  ~Recording() { fs::remove(path); }
};

input::Scenario played_back(const Recording& recording, const std::string& engine, int ranks) {
  return scenario_of(fmt::format(
      "cluster: {{nodes: [{{name: n, cores: 2, gpus: 2, memory: 1gb, cache: 60kb}}]}}\n"
      "datasets: [{{name: data, samples: {}, bytes: 1000}}]\n"
      "pipelines: [{{name: train, steps: [{{name: work, random: true, cost: 1ms, output: 1}}]}}]\n"
      "jobs: [{{dataset: data, pipeline: train, batch: 4, step: 10ms, epochs: 6, ranks: {},\n"
      "         order: weighted, importance: {{recorded: '{}'}}}}]\n"
      "grain: {{items_per_block: 8}}\nengine: {}\n",
      kSamples, ranks, recording.path.string(), engine));
}

// Each line: the epoch of a batch, its samples, and each sample and score that was reported of it.
std::string reports_of(const input::Scenario& scenario) {
  return in_child([&] {
    world::World world(scenario, policies::policy_list(), {});
    std::ostringstream lines;
    std::map<std::pair<Rank, std::uint64_t>, std::string> batches;
    world.decide_by([&](Instant now, std::span<const engine::Event> events) {
      std::vector<const engine::ScoresReported*> reported;
      for (const engine::Event& event : events) {
        if (const auto* scores = std::get_if<engine::ScoresReported>(&event))
          reported.push_back(scores);
      }
      for (const engine::ScoresReported* scores : reported) {
        lines << "reported";
        for (const engine::Score& score : scores->scores)
          lines << fmt::format(" {}={:.9g}", score.sample.value, score.value);
        lines << '\n';
      }
      const auto commands = world.engine().step(now, events);
      for (const engine::Command& command : commands) {
        const auto* deliver = std::get_if<engine::Deliver>(&command);
        if (deliver == nullptr) continue;
        lines << "batch " << deliver->rank << ' ' << deliver->epoch;
        for (const SampleId sample : deliver->samples) lines << ' ' << sample.value;
        lines << '\n';
      }
      return commands;
    });
    const output::RunResult run = world.run();
    lines << "end " << run.digest << ' ' << run.jobs.at(0).samples << ' ' << run.protocol_errors
          << '\n';
    return lines.str();
  });
}

// What has to be reported after a batch of these samples in this epoch.
std::string expected(std::istream& batch) {
  std::uint32_t epoch = 0;
  batch >> epoch;
  std::string text = "reported";
  for (std::uint64_t sample = 0; batch >> sample;) {
    if (sample % kUnknown == 0) continue;
    text += fmt::format(" {}={:.9g}", sample, recorded(sample, std::min(epoch, kRecorded - 1)));
  }
  return text == "reported" ? "" : text;
}

}  // namespace

TEST_CASE("after each batch a job reports what was recorded of its samples, and nothing else") {
  const Recording recording;
  const std::string text = reports_of(played_back(recording, "{preset: icache}", 1));
  std::istringstream lines(text);
  std::vector<std::string> wanted;
  std::vector<std::string> reported;
  std::set<std::string> epochs;
  std::string end;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind;
    std::string rank;
    words >> kind;
    if (kind == "reported") reported.push_back(line);
    if (kind == "end") end = line;
    if (kind != "batch") continue;
    words >> rank;
    epochs.insert(line.substr(0, line.find(' ', 8)));
    // A batch of samples without scores reports nothing.
    if (std::string one = expected(words); !one.empty()) wanted.push_back(std::move(one));
  }
  CHECK(epochs.size() == 6);  // also those beyond the recording
  CHECK(reported.size() > 6 * kSamples / 4 / 2);
  CHECK(reported == wanted);
  CHECK(end.ends_with(fmt::format(" {} 0", 6 * kSamples)));
}

TEST_CASE("the same recording gives the same run, and other scores another") {
  const Recording recording;
  for (const char* engine : {"{preset: icache}", "{preset: shade}", "{preset: fastmatch}"}) {
    const input::Scenario scenario = played_back(recording, engine, 2);
    const std::string once = reports_of(scenario);
    CHECK(once == reports_of(scenario));
    input::Scenario modelled = scenario;
    modelled.jobs[0].importance.recorded.clear();
    modelled.jobs[0].importance.spread = 1;
    CHECK(once != reports_of(modelled));
  }
}

TEST_CASE("a recording that has gone since the scenario was read is an error of the run") {
  const Recording recording;
  const input::Scenario scenario = played_back(recording, "{}", 1);
  fs::remove(recording.path);
  const auto outcomes =
      sim::ForkedRuns::run({[&](const sim::ForkedRuns::ReportProgress&) {
                             return output::encode_run(sim::simulate(scenario, {}));
                           }},
                           1, [](const sim::RunProgress&) {});
  CHECK(!outcomes[0].done);
  CHECK(outcomes[0].problem.starts_with(recording.path.string() + ": cannot be read"));
}

}  // namespace batchflow::test::scores_test
