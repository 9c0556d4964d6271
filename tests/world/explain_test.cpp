// The output of --explain: which policy decided what, and from which numbers.
#include <map>
#include <sstream>

#include "policies/registry.h"
#include "sim/world/world.h"
#include "tests/world/harness.h"

namespace batchflow::test::explain_test {

namespace {

input::Scenario crowded() {
  return scenario_of(
      "cluster: {nodes: [{name: node, cores: 2, gpus: 4, memory: 150kb}],\n"
      "          store: {bytes_per_s: 1mb}}\n"
      "datasets: [{name: data, samples: 400, bytes: 1000}]\n"
      "pipelines: [{name: train, steps: [{name: work, random: true, cost: 1ms, output: 500}]}]\n"
      "jobs: [{dataset: data, pipeline: train, count: 2, batch: 8, step: 20ms, every: 100ms,\n"
      "        epochs: 2}]\n"
      "grain: {items_per_block: 8}\n"
      "engine: {policies: {allocation: 'proportional:forms=encoded', eviction: {encoded: lru}}}\n");
}

}  // namespace

TEST_CASE("each decision is explained by its policy's name and the numbers it was made from") {
  const input::Scenario scenario = crowded();
  const std::string text = in_child([&] {
    std::string all;
    sim::SimulateOptions options;
    options.explain = [&](const std::string& line) { all += line + "\n"; };
    const output::RunResult run = sim::simulate(scenario, options);
    return all + run.digest;
  });
  for (const char* part :
       {" ? allocation proportional:forms=encoded: node 0 dram: share ",
        " ? eviction lru: node 0 dram, encoded of dataset 1: item ",
        " ? selection ready-first: job 0: takes the block at distance ", " ? dispatch ",
        ": starts a block for job ", " ? scaling look-ahead: job 0: looks ", "hit ratio ",
        "residents in ", "needed by ", " < JobJoined ", " > Admit "}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
  // To explain a run changes nothing.
  const output::RunResult alone =
      output::decode_run(in_child([&] { return output::encode_run(sim::simulate(scenario, {})); }));
  CHECK(text.ends_with("\n" + alone.digest));
}

TEST_CASE("a block is started only after a dispatch decision, an item dropped after an eviction") {
  const std::string text = in_child([&] {
    std::string all;
    sim::SimulateOptions options;
    options.explain = [&](const std::string& line) { all += line + "\n"; };
    sim::simulate(crowded(), options);
    return all;
  });
  std::map<std::string, int> counts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(": starts a block") != std::string::npos) ++counts["started"];
    if (line.find(" > Prepare ") != std::string::npos) ++counts["prepared"];
    if (line.find(" leaves ") != std::string::npos) ++counts["evicted"];
    const bool drop = line.find(" > Drop ") != std::string::npos;
    if (drop && line.find("form=encoded") != std::string::npos) ++counts["dropped"];
  }
  CHECK(counts["prepared"] > 50);
  CHECK(counts["started"] >= counts["prepared"]);
  CHECK(counts["dropped"] > 50);
  CHECK(counts["evicted"] >= counts["dropped"]);
}

}  // namespace batchflow::test::explain_test
