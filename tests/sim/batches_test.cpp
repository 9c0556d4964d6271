// `batchflow-sim run --batches`: the samples that jobs trained on, as a user reads them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "sim/simulate.h"
#include "tests/sim/program.h"
#include "tests/skip.h"

namespace batchflow::test::batches_test {

namespace {

using nlohmann::json;
using Samples = std::vector<std::uint64_t>;

constexpr std::uint64_t kSamples = 301;

std::string scenario(const std::string& job, const std::string& more = "") {
  return fmt::format(
      "cluster: {{nodes: [{{name: n, count: 2, cores: 2, gpus: 2, memory: 3mb}}], store: "
      "{{bytes_per_s: 20mb}}}}\n"
      "datasets: [{{name: data, samples: {}, bytes: 10kb}}]\n"
      "pipelines: [{{name: train, steps: [{{name: crop, random: true, cost: 1ms}}]}}]\n"
      "jobs: [{{name: a, dataset: data, pipeline: train, batch: 16, step: 20ms, epochs: 3, {}}}]\n"
      "grain: {{items_per_block: 16}}\n{}",
      kSamples, job, more);
}

// The lines of the file that the run wrote.
std::vector<json> batches(const std::string& yaml, std::vector<std::string> more = {}) {
  const Folder folder;
  std::vector<std::string> words = {"run", folder.file("s.yaml", yaml), "--batches",
                                    folder.name("b.jsonl")};
  words.insert(words.end(), more.begin(), more.end());
  const Outcome outcome = run(words);
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  std::istringstream lines(content(folder.path() / "b.jsonl"));
  std::vector<json> all;
  for (std::string line; std::getline(lines, line);) all.push_back(json::parse(line));
  return all;
}

// The samples of each epoch, one batch after the other.
std::map<std::uint32_t, Samples> epochs_of(const std::vector<json>& lines) {
  std::map<std::uint32_t, Samples> epochs;
  for (const json& line : lines) {
    const Samples samples = line["samples"];
    Samples& epoch = epochs[line["epoch"]];
    epoch.insert(epoch.end(), samples.begin(), samples.end());
  }
  return epochs;
}

void check_each_once(const std::vector<json>& lines) {
  const auto epochs = epochs_of(lines);
  CHECK(epochs.size() == 3);
  for (auto [epoch, samples] : epochs) {
    CAPTURE(epoch);
    std::sort(samples.begin(), samples.end());
    REQUIRE(samples.size() == kSamples);
    for (std::uint64_t i = 0; i < kSamples; ++i) CHECK(samples[i] == i);
  }
}

}  // namespace

TEST_CASE("each sample of an epoch is there once, whoever chooses the order") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  for (const char* job : {"order: relaxed", "order: strict, ranks: 2", "order: sequential",
                          "order: relaxed, ranks: 4, node_local: true"}) {
    CAPTURE(job);
    check_each_once(batches(scenario(job)));
  }
  for (const char* preset : {"quiver", "seneca", "deepio", "independent"}) {
    CAPTURE(preset);
    check_each_once(
        batches(scenario("order: relaxed"), {"--policy", fmt::format("preset={}", preset)}));
  }
  const std::string small = scenario("order: relaxed, runs: true");
  std::string bundled = small;
  bundled.replace(bundled.find("bytes: 10kb"), 11, "bytes: 100, bundle: 1600");
  check_each_once(batches(bundled));
}

TEST_CASE(
    "a line says which job's batch it is, and how many ranks there are does not change an order") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const std::vector<json> lines = batches(scenario("order: strict, ranks: 2, shuffle_seed: 5"));
  std::uint64_t number = 0;
  for (const json& line : lines) {
    CHECK(line["job"] == "a");
    CHECK(line["rank"] == number % 2);
    CHECK(line["step"] == number / 2);
    // The last step of an epoch has 13 samples, and both ranks get as many.
    const bool is_last = number / 2 % 10 == 9;
    CHECK(line["samples"].size() == (!is_last ? 16 : number % 2 == 0 ? 7 : 6));
    CHECK(line.contains("fillers") == (is_last && number % 2 == 1));
    CHECK(!line.contains("rehearsed"));
    ++number;
  }
  CHECK(number == 3 * 10 * 2);
  const auto epochs = epochs_of(lines);
  CHECK(epochs == epochs_of(batches(scenario("order: strict, shuffle_seed: 5"))));
  CHECK(epochs != epochs_of(batches(scenario("order: strict, shuffle_seed: 6"))));
  Samples in_turn(kSamples);
  for (std::uint64_t i = 0; i < kSamples; ++i) in_turn[i] = i;
  CHECK(epochs_of(batches(scenario("order: sequential")))[2] == in_turn);
}

TEST_CASE("rehearsed samples stand apart, and draws may come twice") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const std::vector<json> rehearsing =
      batches(scenario("order: relaxed, rehearsal: {samples: 4, exemplars: 50}"));
  check_each_once(rehearsing);
  for (const json& line : rehearsing) CHECK(line["rehearsed"].size() == 4);
  const auto drawn = epochs_of(
      batches(scenario("order: weighted, importance: {spread: 2}"), {"--policy", "preset=icache"}));
  CHECK(drawn.at(2).size() == kSamples);
  CHECK(std::set<std::uint64_t>(drawn.at(2).begin(), drawn.at(2).end()).size() < kSamples * 3 / 4);
}

TEST_CASE("a step that a lost node makes void is there once") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  for (const int at : {210, 333, 456}) {
    check_each_once(batches(scenario(
        "order: relaxed, ranks: 4",
        fmt::format("faults: [{{kind: node-lost, target: n-1, at: {}ms, lasts: 500ms}}]\n", at))));
  }
}

TEST_CASE("what a job trains on again after a checkpoint is there in another life") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const std::vector<json> lines =
      batches(scenario("order: relaxed, ranks: 4, checkpoint: {every: 2}",
                       "faults: [{kind: node-lost, target: n-1, at: 333ms, lasts: 500ms}]\n"));
  std::map<std::uint64_t, std::size_t> of_life;
  for (const json& line : lines) of_life[line.value("life", 0)] += 1;
  REQUIRE(of_life.size() == 2);
  // An epoch is 5 steps of 4 ranks. The steps of the first life are whole, and at most one of them
  // comes again.
  CHECK(of_life[0] % 4 == 0);
  const std::size_t again = lines.size() - 3 * 5 * 4;
  CHECK((again == 0 || again == 4));
}

TEST_CASE("what cannot be written is refused before the run") {
  const Folder folder;
  const std::string path = folder.file("s.yaml", scenario("order: relaxed"));
  check_refused({"run", path, "--batches", "/nowhere/b.jsonl"}, "/nowhere/b.jsonl");
  check_refused({"run", path, "--batches", path}, "SCENARIO and --batches cannot both be");
  check_refused(
      {"run", path, "--batches", folder.name("b"), "--policy", "dispatch=fifo,coordinated"},
      "--batches shows one run, and this is a comparison of 2");
  check_refused({"run", path, "--batches", folder.name("b"), "--set", "datasets.0.samples=320",
                 "--set", "grain.samples_per_item=2"},
                "--batches names single samples");
  CHECK(folder.files() == 1);
}

}  // namespace batchflow::test::batches_test
