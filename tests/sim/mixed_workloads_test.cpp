// Several workloads on one cluster, losses of nodes from a file, and figures that leave the
// beginning out, as users ask for them.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "programs/input/fault_trace.h"
#include "programs/input/mixed_workloads.h"
#include "programs/input/yaml.h"
#include "sim/simulate.h"
#include "tests/sim/program.h"
#include "tests/skip.h"

namespace batchflow::test::mixed_workloads_test {

namespace {

using nlohmann::json;

const std::string kCluster =
    "cluster: {nodes: [{name: node, count: 2, cores: 4, gpus: 2, memory: 1gb}],\n"
    "  prices: {node_hour: 1800}}\njitter: {arrival: 0s, step: 0}\n";
const std::string kPipelines =
    "pipelines: [{name: train, steps: [{name: crop, random: true, cost: 1ms}]}]\n";

// Ten steps of 1 s, and what feeds them takes no time that counts.
std::string scenario(const std::string& jobs =
                         "[{name: job, dataset: data, pipeline: train, "
                         "batch: 16, step: 1s}]") {
  return kCluster + "datasets: [{name: data, samples: 160, bytes: 1kb}]\n" + kPipelines +
         "jobs: " + jobs + "\n";
}

std::string workload(const std::string& bytes) {
  return "kind: workload\nname: other\ndatasets: [{name: data, samples: 160, bytes: " + bytes +
         "}]\n" + kPipelines +
         "jobs: [{name: job, dataset: data, pipeline: train, batch: 16, step: 1s, arrives: 5s}]\n";
}

config::ConfigNode tree_of(const std::string& text) {
  return input::parse_yaml(text, "s.yaml");
}

}  // namespace

TEST_CASE("workloads join a scenario: what is the same is one, other names are made unique") {
  const Folder folder;
  config::ConfigNode tree = tree_of(scenario());
  const auto same =
      input::add_workload(tree, {folder.file("same.yaml", workload("1kb")), Duration(0)}, {});
  const auto other = input::add_workload(
      tree, {folder.file("other.yaml", workload("2kb")), std::chrono::seconds(60)}, {});
  const input::Scenario mixed = input::read_scenario(tree);
  REQUIRE(mixed.datasets.size() == 2);
  CHECK(mixed.datasets[1].name == "data-2");
  CHECK(mixed.pipelines.size() == 1);
  REQUIRE(mixed.jobs.size() == 3);
  CHECK(mixed.jobs[1].name == "job-2");
  CHECK(mixed.jobs[1].dataset == 0);
  CHECK(mixed.jobs[1].arrives == Instant(std::chrono::seconds(5)));
  CHECK(mixed.jobs[2].name == "job-3");
  CHECK(mixed.jobs[2].dataset == 1);
  CHECK(mixed.jobs[2].arrives == Instant(std::chrono::seconds(65)));
  REQUIRE(same.size() == 3);  // data and pipeline are there, the job is renamed
  CHECK(other[0].find("is called data-2 here") != std::string::npos);
}

TEST_CASE("what holds for all jobs must not differ, and the error says what to write") {
  const Folder folder;
  const std::string mine = folder.file("a.yaml", scenario());
  const std::string theirs =
      folder.file("b.yaml", "cluster: laptop\n" + scenario().substr(kCluster.size()));
  check_refused({"check", mine, "--workload", theirs}, "--cluster NAME says on which one");
  CHECK(run({"check", mine, "--workload", theirs, "--cluster", "laptop"}).code == 0);
  const std::string engine =
      folder.file("c.yaml", workload("1kb") + "engine: {preset: independent}\n");
  check_refused({"check", mine, "--workload", engine}, "--set 'engine={preset: default}'");
  CHECK(run({"check", mine, "--workload", engine, "--set", "engine={preset: default}"}).code == 0);
  check_refused({"check", mine, "--workload", "x@soon"}, "'soon' is not a time");
  check_refused({"check", mine, "--workload", "laptop.yaml"}, "laptop.yaml");
}

TEST_CASE("the first workload on a cluster brings what holds for all jobs") {
  const Folder folder;
  const std::string file =
      folder.file("grained.yaml", workload("1kb") + "grain: {samples_per_item: 16}\n");
  config::ConfigNode tree = tree_of(kCluster);
  input::add_workload(tree, {file, Duration(0)}, {});
  input::add_workload(tree, {file, std::chrono::seconds(60)}, {});
  const input::Scenario mixed = input::read_scenario(tree);
  CHECK(mixed.grain.samples_per_item == 16);
  CHECK(mixed.jobs.size() == 2);
  const std::string finer =
      folder.file("finer.yaml", workload("1kb") + "grain: {samples_per_item: 4}\n");
  CHECK_THROWS_WITH_AS(input::add_workload(tree, {finer, Duration(0)}, {}),
                       doctest::Contains("what it joins has {samples_per_item: 16}"), ConfigError);
}

TEST_CASE("runs and sweeps take several workloads, and say what they renamed") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const std::string mine = folder.file("a.yaml", scenario());
  const std::string theirs = folder.file("b.yaml", workload("2kb"));
  const Outcome outcome = run({"run", mine, "--workload", theirs + "@20s", "--json"});
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(outcome.err.find("job job of " + theirs + " is called job-2 here") != std::string::npos);
  const json one = json::parse(outcome.out)["runs"][0];
  REQUIRE(one["jobs"].size() == 2);
  CHECK(one["jobs"][1]["arrived_s"] == 25);
  CHECK(one["makespan_s"].get<double>() == doctest::Approx(35).epsilon(0.01));
  const std::string study =
      folder.file("s.yaml", "kind: study\nscenario: " + mine + "\nworkloads: [" + theirs +
                                "@20s]\ngrid: {cluster.nodes.0.cores: [2, 4]}\n");
  const Outcome swept = run({"sweep", study, "--out", folder.name("r.jsonl"), "--json"});
  CAPTURE(swept.err);
  REQUIRE(swept.code == 0);
  CHECK(json::parse(swept.out)["runs"][1]["jobs"].size() == 2);
}

TEST_CASE("figures leave out what was before the warm-up, and costs follow") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const std::string path = folder.file("s.yaml", scenario());
  const json whole = json::parse(run({"run", path, "--json"}).out)["runs"][0];
  // Ten steps of 1 s on 16 samples each, and two nodes of 1800 an hour: 1 a second.
  CHECK(whole["makespan_s"].get<double>() == doctest::Approx(10).epsilon(0.01));
  CHECK(whole["aggregate"]["samples"] == 160);
  CHECK(whole["aggregate"]["cost"].get<double>() == doctest::Approx(10).epsilon(0.01));
  CHECK(whole["aggregate"]["cost_per_million_samples"].get<double>() ==
        doctest::Approx(62500).epsilon(0.01));
  const Outcome outcome = run({"run", path, "--skip", "4500ms", "--json"});
  REQUIRE(outcome.code == 0);
  const json part = json::parse(outcome.out)["runs"][0];
  CHECK(part["counted_from_s"] == 4.5);
  CHECK(part["digest"] == whole["digest"]);
  CHECK(part["aggregate"]["samples"] == 96);  // the six steps that end from then on
  CHECK(part["aggregate"]["cost"].get<double>() == doctest::Approx(5.5).epsilon(0.01));
  CHECK(part["aggregate"]["samples_per_s"].get<double>() ==
        doctest::Approx(96 / 5.5).epsilon(0.01));
  CHECK(part["aggregate"]["au"].get<double>() == doctest::Approx(1).epsilon(0.001));
  CHECK(part["jobs"][0]["samples"] == 160);
  CHECK(outcome.err.find("figures over all jobs count from 4.5 s on") != std::string::npos);
  check_refused({"run", path, "--skip", "1h"}, "all jobs are done");
  // Runs with a common beginning leave it out, too.
  const std::string study =
      folder.file("study.yaml", "kind: study\nscenario: " + path +
                                    "\nset: {warm_up: 2500ms}\nwarm_start: {at: 4s}\n"
                                    "grid: {cluster.nodes.0.cache: [512mb, 1gb]}\n"
                                    "policies: [scaling=static]\n");
  const Outcome swept = run({"sweep", study, "--out", folder.name("r.jsonl"), "--json"});
  CAPTURE(swept.err);
  REQUIRE(swept.code == 0);
  const json results = json::parse(swept.out);
  for (const json& one : results["runs"]) {
    CHECK(one["counted_from_s"] == 2.5);
    CHECK(one["aggregate"]["samples"] == 128);
  }
}

TEST_CASE("every report says what is the same in all runs") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const std::string path = folder.file("s.yaml", scenario());
  const Outcome outcome = run({"run", path, "--policy", "eviction=lru,sieve", "--set",
                               "engine.credits=5", "--html", folder.name("r.html"), "--json"});
  REQUIRE(outcome.code == 0);
  const json same = json::parse(outcome.out)["same_in_all_runs"];
  CHECK(same["settings"]["credits"] == "5");
  CHECK(same["cluster"]["cluster.nodes"] == "2");
  CHECK(same["policies"]["preset"] == "default");
  CHECK_FALSE(same["policies"].contains("eviction.encoded"));
  CHECK(same["workload"].contains("dataset data"));
  CHECK(outcome.err.find("engine in all runs: credits=5\n") != std::string::npos);
  CHECK(outcome.err.find("cluster in all runs: 2 nodes, 4 gpus, 8 cores") != std::string::npos);
  CHECK(outcome.err.find("workload in all runs: dataset data") != std::string::npos);
  CHECK(content(folder.name("r.html")).find("The same in all runs") != std::string::npos);
}

TEST_CASE("completion times, slowdown and fairness are in the table of runs") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const Outcome outcome = run({"run", folder.file("s.yaml", scenario())});
  REQUIRE(outcome.code == 0);
  for (const char* name : {"JCT", "JCT p95", "slowdown", "fairness", "fairness of users", "cost"})
    CHECK(outcome.out.find(name) != std::string::npos);
}

TEST_CASE("losses of nodes come from a file: overlapping ones are merged, early ones cut") {
  const Folder folder;
  input::Scenario scenario = input::read_scenario(tree_of(mixed_workloads_test::scenario()));
  const std::string path = folder.file("f.csv",
                                       "# outages\n"
                                       "up,node,down\n"
                                       "30,node-0,10\n"
                                       "1min,node-0,20s\n"  // overlaps the one above
                                       "5,node-1,-5\n"      // has begun before
                                       "-7,node-1,-9\n"     // was over before
                                       ",node-1,100\n");    // for good
  const input::FaultTraceCounts counts = input::add_fault_trace(scenario, path);
  CHECK(counts.faults == 3);
  CHECK(counts.too_early == 1);
  REQUIRE(scenario.faults.size() == 3);
  CHECK(scenario.faults[0].name == "node-0");
  CHECK(scenario.faults[0].at == Instant(std::chrono::seconds(10)));
  CHECK(scenario.faults[0].lasts == std::chrono::seconds(50));
  CHECK(scenario.faults[1].at == Instant{});
  CHECK(scenario.faults[1].lasts == std::chrono::seconds(5));
  CHECK(scenario.faults[2].lasts == Duration(0));
  // Of 50 s, and for good, where the engine waits for 5 s.
  CHECK(counts.too_long == 2);
  CHECK(input::text_of(counts, scenario).find("--set engine.rank_timeout=1d") != std::string::npos);
  const auto refused = [&](const std::string& text, const std::string& part) {
    CAPTURE(text);
    try {
      input::add_fault_trace(scenario, folder.file("w.csv", text));
      FAIL("it was taken");
    } catch (const ConfigError& error) {
      CHECK(std::string(error.what()).find(part) != std::string::npos);
    }
  };
  refused("", "is empty");
  refused("node,down\n", "there is no column 'up'");
  refused("node,down,up\nnode-7,1,2\n", "w.csv:2: the cluster has no node 'node-7'");
  refused("node,down,up\nnode-0,2,1\n", "is up before it is down");
  refused("node,down,up\nnode-0,soon,1\n", "'soon' is not a time");
  refused("node,down,up\nnode-0,1\n", "the line has 2 fields");
}

TEST_CASE("a run with a file of losses meets them") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const Outcome outcome =
      run({"run", folder.file("s.yaml", scenario()), "--faults",
           folder.file("f.csv", "node,down,up\nnode-0,2,4\nnode-1,2,4\n"), "--json"});
  REQUIRE(outcome.code == 0);
  const json one = json::parse(outcome.out)["runs"][0];
  REQUIRE(one["faults"].size() == 2);
  CHECK(one["faults"][0]["struck"] == true);
  CHECK(one["jobs"][0]["restarts"] == 1);
}

}  // namespace batchflow::test::mixed_workloads_test
