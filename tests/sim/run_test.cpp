// `batchflow-sim run` and `check` as a user calls them.
#include <doctest/doctest.h>

#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>

#include "policies/registry.h"
#include "sim/simulate.h"
#include "sim/variants.h"
#include "tests/sim/markup.h"
#include "tests/sim/program.h"
#include "tests/skip.h"

namespace batchflow::test::run_test {

namespace {

using nlohmann::json;
using sim::can_simulate;
using sim::parse_variants;
using sim::Variant;

std::string small_scenario() {
  return "cluster: {nodes: [{name: node, cores: 4, gpus: 4, memory: 1gb}]}\n"
         "datasets: [{name: data, samples: 640, bytes: 10kb}]\n"
         "pipelines: [{name: train, steps: [{name: crop, random: true, cost: 1ms}]}]\n"
         "jobs: [{dataset: data, pipeline: train, count: 2, batch: 16, step: 20ms}]\n"
         "grain: {items_per_block: 16}\n";
}

}  // namespace

TEST_CASE("a scenario that cannot be is refused before anything runs, with its place") {
  const Folder folder;
  const std::string path = folder.file("s.yaml", small_scenario() + "nodes: 3\n");
  for (const char* command : {"run", "check"}) {
    const Outcome outcome = run({command, path});
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find("s.yaml:6: key 'nodes'") != std::string::npos);
  }
  const Outcome policy =
      run({"check",
           folder.file("p.yaml", small_scenario() + "engine: {policies: {dispatch: fifi}}\n")});
  CHECK(policy.code == 2);
  CHECK(policy.err.find("p.yaml:6: key 'engine.policies.dispatch'") != std::string::npos);
  CHECK(policy.err.find("'fifo'") != std::string::npos);
  CHECK(run({"run", "four-job"}).err.find("write 'four-jobs'") != std::string::npos);
  CHECK(run({"run"}).code == 2);
  CHECK(run({"run", "four-jobs", "--policy", "sieve"}).code == 2);
  CHECK(run({"run", "four-jobs", "--policy", "preset=indep"}).code == 2);
  CHECK(run({"run", "four-jobs", "--policy", "eviction=lru,sieve", "--explain"}).code == 2);
  CHECK(run({"run", "four-jobs", "--seed", "-1"}).code == 2);
  CHECK(run({"run", "four-jobs", "--html", "r.html", "--timeline", "./r.html"}).code == 2);
  CHECK(run({"run", "four-jobs", "--json=r.html", "--html", "r.html"}).code == 2);
  CHECK(run({"run", "four-jobs", "--journal", "r.j", "--json=r.j"}).code == 2);
  CHECK(run({"sweep", "store-and-cores", "--out", "/dev/null"}).code == 2);
  CHECK(run({"compare", "/dev/zero", "/dev/zero"}).code == 2);
  CHECK(run({"compare", "/tmp", "/tmp"}).code == 2);
  CHECK(run({"check", "four-jobs"}).code == 0);
  CHECK(run({"check", "four-jobs", "--set", "jobs.0.nodes=[nowhere]"}).code == 2);
}

TEST_CASE("the configuration that is generated is one that runs") {
  const Folder folder;
  const Outcome generated = run({"run", "--gen-config"});
  CHECK(generated.code == 0);
  CHECK(run({"check", folder.file("g.yaml", generated.out)}).code == 0);
}

TEST_CASE("policies are parsed into variants: names of one kind compared, kinds crossed") {
  const auto labels = [](const std::vector<std::string>& texts) {
    std::vector<std::string> result;
    for (const Variant& variant : sim::parse_variants(policies::policy_list(), texts)) {
      result.push_back(variant.label);
    }
    return result;
  };
  using Texts = std::vector<std::string>;
  CHECK(labels({}) == Texts{""});
  CHECK(labels({"dispatch=fifo"}) == Texts{""});
  CHECK(labels({"dispatch=fifo,coordinated"}) == Texts{"dispatch=fifo", "dispatch=coordinated"});
  CHECK(labels({"dispatch=fifo", "dispatch=fifo"}) == Texts{""});
  CHECK(labels({"dispatch=fifo,bounded-lag:blocks=4,eviction=lru"}) ==
        Texts{"dispatch=fifo", "dispatch=bounded-lag:blocks=4"});
  CHECK(labels({"eviction=lru,sieve", "preset=default,independent"}) ==
        Texts{"preset=default eviction=lru", "preset=default eviction=sieve",
              "preset=independent eviction=lru", "preset=independent eviction=sieve"});
  CHECK_THROWS_AS(labels({"fifo"}), ConfigError);
  CHECK_THROWS_AS(labels({"dispatch=fifo,,lru"}), ConfigError);
  CHECK_THROWS_AS(labels({"dispach=fifo"}), ConfigError);
}

TEST_CASE("what came of runs, as a table, JSON and CSV") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const std::string path = folder.file("s.yaml", small_scenario());
  const std::string csv = folder.name("jobs.csv");
  const Outcome outcome = run({"run", path, "--policy", "preset=independent,default", "--seed", "5",
                               "--json", "--jobs-csv=" + csv});
  CHECK(outcome.code == 0);
  CHECK(outcome.err.find("preset=default") != std::string::npos);
  const json result = json::parse(outcome.out);
  REQUIRE(result["runs"].size() == 2);
  for (const json& one : result["runs"]) {
    CHECK(one["seed"] == 5);
    CHECK(one["digest"].get<std::string>().size() == 16);
    CHECK(one["makespan_s"] > 0.8);  // 40 steps of 20 ms
    for (const char* key : {"samples_per_s", "stall_fraction", "au", "hit_ratio", "storage_bytes",
                            "preparations", "repeats", "network_bytes"}) {
      CHECK(one["aggregate"].contains(key));
    }
    REQUIRE(one["jobs"].size() == 2);
    for (const char* key : {"samples", "time_s", "compute_s", "stall_s", "epochs"}) {
      CHECK(one["jobs"][0].contains(key));
    }
    CHECK(one["jobs"][0]["samples"] == 640);
  }
  CHECK(result["runs"][0]["policies"]["preset"] == "independent");
  CHECK(result["runs"][0]["aggregate"]["preparations"] == 1280);
  CHECK(result["runs"][1]["aggregate"]["preparations"] == 640);
  const std::string text = content(csv);
  CHECK(text.starts_with("run,seed,name,user"));
  CHECK(text.find("\npreset=default,5,job-1,") != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') == 1 + 2 * 2);
}

TEST_CASE("every order is explained with its time") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const Outcome outcome = run({"run", folder.file("s.yaml", small_scenario()), "--explain", "--set",
                               "jitter={arrival: 0s}"});
  CHECK(outcome.code == 0);
  CHECK(outcome.out.find("0.000000000 < JobJoined job=0") != std::string::npos);
  CHECK(outcome.out.find("> Prepare request=") != std::string::npos);
}

TEST_CASE("a refused job is a failure of the run, which says why") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const Outcome outcome = run(
      {"run", folder.file("s.yaml", small_scenario()), "--set", "cluster.nodes.0.memory=100kb"});
  CHECK(outcome.code == 1);
  CHECK(outcome.out.find("was refused: it needs 320000 bytes of the cache") != std::string::npos);
}

TEST_CASE("an interrupted run leaves what it has so far, whole, and says so") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const std::string file = folder.name("out.json");
  const pid_t child = start({"run", "eight-jobs", "--set", "jobs.0.epochs=100000", "--policy",
                             "preset=default,independent", "--json=" + file},
                            folder);
  wait_until_it_handles(child, SIGINT);
  usleep(300'000);
  kill(child, SIGINT);
  const Outcome outcome = finish(child, folder);
  CHECK(outcome.code == 130);
  CHECK(outcome.err.find("interrupted; what is written are the results so far") !=
        std::string::npos);
  const json result = json::parse(content(file));
  REQUIRE(result["runs"].size() >= 1);
  CHECK(result["runs"][0]["interrupted"] == true);
  CHECK(result["runs"][0]["aggregate"]["samples"] > 0);
  CHECK(result["runs"][0]["jobs"].size() == 8);
}

// As a terminal sends it: to the program, and to the processes in which it simulates.
TEST_CASE("Ctrl-C in a terminal leaves results, a report and a journal so far") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const std::string file = folder.name("out.json");
  const std::string html = folder.name("r.html");
  const std::string journal = folder.name("r.journal");
  const pid_t child = start({"run", "eight-jobs", "--set", "jobs.0.epochs=100000", "--json=" + file,
                             "--html", html, "--journal", journal},
                            folder, [] { setpgid(0, 0); });
  wait_until_it_handles(child, SIGINT);
  while (!std::filesystem::exists(journal)) usleep(1000);
  usleep(100'000);
  kill(-child, SIGINT);
  const Outcome outcome = finish(child, folder);
  CHECK(outcome.code == 130);
  CHECK(outcome.err.find("interrupted; what is written are the results so far") !=
        std::string::npos);
  const json result = json::parse(content(file))["runs"][0];
  CHECK(result["interrupted"] == true);
  CHECK(result["aggregate"]["samples"] > 0);
  CHECK(content(html).find("</html>") != std::string::npos);
  CHECK(std::filesystem::file_size(journal) > 0);
}

TEST_CASE("an interrupt while a large scenario is set up ends it at once, in one line") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const std::string path = folder.file(
      "s.yaml",
      "cluster: {nodes: [{name: n, count: 60000, memory: 64gb, nic_bytes_per_s: 1gb}]}\n"
      "datasets: [{name: data, samples: 100000, bytes: 100kb}]\n"
      "pipelines: [{name: train, steps: []}]\n"
      "jobs: [{dataset: data, pipeline: train, count: 100, batch: 1000, step: 20ms}]\n"
      "grain: {samples_per_item: 1000}\n");
  const std::string file = folder.name("out.json");
  const pid_t child = start({"run", path, "--json=" + file}, folder);
  wait_until_it_handles(child, SIGINT);
  usleep(200'000);  // of a set-up that takes a second or more
  const auto began = std::chrono::steady_clock::now();
  kill(child, SIGINT);
  const Outcome outcome = finish(child, folder);
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(3));
  CHECK(outcome.code == 130);
  CHECK(outcome.out.empty());
  CHECK(outcome.err == "batchflow-sim: interrupted before there were results\n");
  CHECK(!std::filesystem::exists(file));
}

TEST_CASE("without SimGrid, run says what to install") {
  if (sim::can_simulate()) return;
  const Outcome outcome = run({"run", "four-jobs"});
  CHECK(outcome.code == 2);
  CHECK(outcome.err.find("libsimgrid-dev") != std::string::npos);
}

TEST_CASE("--bottleneck says what twice of each thing gains: only the slow one") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  // 640 samples of 10 kB at 640 kB/s: ten seconds of reading, and 0.8 s of training.
  const std::string store = folder.file("s.yaml", small_scenario());
  const std::string html = folder.name("r.html");
  const Outcome outcome = run({"run", store, "--set", "cluster.store.bytes_per_s=640000",
                               "--bottleneck", "--json", "--html", html});
  CHECK(outcome.code == 0);
  const json one = json::parse(outcome.out)["runs"][0];
  REQUIRE(one["bottlenecks"].size() == 3);  // network and PCIe have no limit
  for (const json& gain : one["bottlenecks"]) {
    CAPTURE(gain.dump());
    const double speedup = gain["speedup"];
    if (gain["resource"] == "storage") {
      CHECK(speedup > 1.9);
      CHECK(speedup <= 2.0001);
    } else {
      CHECK(speedup == 1);
    }
    CHECK(gain["jobs"].size() == 2);
    CHECK(one["makespan_s"].get<double>() / gain["makespan_s"].get<double>() ==
          doctest::Approx(speedup));
  }
  for (const json& job : one["jobs"]) CHECK(job["bottleneck"] == "storage");
  CHECK(outcome.err.find("with twice the  bounded by") != std::string::npos);
  check_stands_alone(content(html));
  CHECK(content(html).find("data-field=\"speedup storage\"") != std::string::npos);
  CHECK(json::parse(run({"run", store, "--json"}).out)["runs"][0].contains("bottlenecks") == false);
}

TEST_CASE(
    "--bottleneck finds what a run that is cut would gain, and slow drives, links and memory") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const auto gains = [&](const std::string& cluster, const std::string& more, int batch = 16) {
    const std::string path = folder.file(
        "s.yaml", "cluster: " + cluster +
                      "\ndatasets: [{name: data, samples: 640, bytes: 10kb}]\n"
                      "pipelines: [{name: train, steps: []}]\n"
                      "jobs: [{dataset: data, pipeline: train, step: 1us, epochs: 4, batch: " +
                      std::to_string(batch) +
                      "}]\ngrain: {items_per_block: 16}\njitter: {arrival: 0s, step: 0}\n" + more);
    std::map<std::string, double> result;
    const json one = json::parse(run({"run", path, "--bottleneck", "--json"}).out)["runs"][0];
    for (const json& gain : one["bottlenecks"]) {
      result[gain["resource"]] = gain["speedup"];
      CHECK(gain["jobs"][0]["speedup"].get<double>() == doctest::Approx(gain["speedup"]));
    }
    return result;
  };
  // 25.6 MB at 640 kB/s are 40 s, of which 20 are simulated.
  const auto cut =
      gains("{nodes: [{name: node, memory: 1gb, cache: 1mb}], store: {bytes_per_s: 640kb}}",
            "ends_after: 20s\nengine: {policies: {allocation: 'proportional:forms=prepared'}}\n");
  CHECK(cut.at("storage") == doctest::Approx(2).epsilon(.02));
  CHECK(cut.at("cores") == doctest::Approx(1).epsilon(.02));
  CHECK(cut.count("network") == 0);
  CHECK(cut.count("drives") == 0);
  // All of it fits on the drive; the epochs after the first read from there.
  const auto drives = gains(
      "{nodes: [{name: node, memory: 1gb, cache: 1mb,\n"
      "          nvme: {size: 1gb, bytes_per_s: 640kb}}], store: {}}",
      "engine: {policies: {allocation: 'proportional:forms=encoded'}}\n");
  CHECK(drives.at("drives") > 1.5);
  const auto links = gains(
      "{nodes: [{name: node, memory: 1gb, cache: 1mb, link: rack}],\n"
      " links: [{name: rack, bytes_per_s: 640kb}], store: {}}",
      "engine: {policies: {allocation: 'proportional:forms=prepared'}}\n");
  CHECK(links.at("network") == doctest::Approx(2).epsilon(.02));
  // Batches that are gathered from two blocks.
  const auto memory =
      gains("{nodes: [{name: node, memory: 1gb, memory_bytes_per_s: 640kb}]}", "", 24);
  CHECK(memory.at("memory") > 1.5);
}

TEST_CASE("a result that cannot be written to its end: one line, no table, and nothing is left") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const std::string path = folder.file("s.yaml", small_scenario());
  for (const std::string flag : {"--journal", "--timeline"}) {
    CAPTURE(flag);
    const Outcome device = run({"run", path, flag, "/dev/full"});
    CHECK(device.code == 1);
    CHECK(device.out.empty());
    CHECK(device.err.starts_with(
        "batchflow-sim: /dev/full: cannot be written: No space left on device; "));
    CHECK(std::count(device.err.begin(), device.err.end(), '\n') == 1);
    const Outcome file = run({"run", path, flag, folder.name("result")}, [] {
      const rlimit limit{1000, 1000};
      setrlimit(RLIMIT_FSIZE, &limit);
    });
    CHECK(file.code == 1);
    CHECK(file.err.find("result: cannot be written: File too large") != std::string::npos);
    CHECK(folder.files() == 1);
    // A path that can never be written is bad input.
    CHECK(run({"run", path, flag, "/nowhere/result"}).code == 2);
  }
  check_refused({"run", path, "--timeline-events", "5"}, "add --timeline FILE");
}

TEST_CASE("a fault that met nothing is said not to have struck") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const std::string path =
      folder.file("s.yaml", small_scenario() +
                                "faults: [{kind: node-lost, target: node, at: 1h},\n"
                                "         {kind: worker-slow, target: node, factor: 0.5}]\n");
  const std::string html = folder.name("r.html");
  const Outcome outcome = run({"run", path, "--json", "--html", html});
  const json faults = json::parse(outcome.out)["runs"][0]["faults"];
  CHECK(faults[0]["struck"] == false);
  CHECK(faults[0]["from_s"].is_null());
  CHECK(faults[0]["until_s"].is_null());
  CHECK(faults[1]["until_s"].get<double>() > 0);
  CHECK(outcome.err.find("did not strike") != std::string::npos);
  CHECK(content(html).find("did not strike") != std::string::npos);
  check_stands_alone(content(html));
}

}  // namespace batchflow::test::run_test
