// `batchflow-sim whatif` and `journal whatif` as a user calls them: what is derived from a journal,
// what would be gained, and journals that are not whole.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/simulate.h"
#include "tests/sim/program.h"
#include "tests/skip.h"

namespace batchflow::test::whatif_test {

namespace {

using nlohmann::json;

// Two jobs that read the same 6.4 MB in orders of their own, and memory for a part of it.
std::string two_jobs(const std::string& engine, const std::string& cache = "256mb") {
  return "cluster: {nodes: [{name: node, cores: 2, gpus: 2, memory: 1gb, cache: " + cache +
         "}], store: {bytes_per_s: 100mb, latency: 100us}}\n"
         "datasets: [{name: data, samples: 640, bytes: 10kb}]\n"
         "pipelines: [{name: train, steps: [{name: crop, random: true, cost: 1ms}]}]\n"
         "jobs: [{dataset: data, pipeline: train, count: 2, batch: 16, step: 5ms, epochs: 4}]\n"
         "engine: {" +
         engine + "}\n";
}

std::string recorded(const Folder& folder, const std::string& scenario) {
  const std::string journal = folder.name("r.journal");
  REQUIRE(run({"run", folder.file("s.yaml", scenario), "--journal", journal}).code == 0);
  return journal;
}

json asked(std::vector<std::string> words) {
  words.insert(words.begin(), {"journal", "whatif"});
  words.emplace_back("--json");
  const Outcome outcome = run(words);
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  return json::parse(outcome.out);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("what ran is found in its journal: data, jobs, their times, costs and the store") {
  if (!sim::can_simulate()) return skipped("SimGrid is not installed");
  const Folder folder;
  const std::string journal = folder.name("toy.journal"), derived = folder.name("d.yaml");
  REQUIRE(run({"run", "toy-jobs", "--journal", journal, "--set", "jitter={arrival: 0s, step: 0}"})
              .code == 0);
  const json answer = asked({journal, "--seeds", "1", "--scenario", derived});
  const std::string text = content(derived);
  CAPTURE(text);
  CHECK(has(text, "samples: 2048, bytes: 4096"));
  CHECK(has(text, "batch: 32, ranks: 1, epochs: 3, step: 5000000ns, arrives: 0ns"));
  CHECK(has(text, "batch: 32, ranks: 1, epochs: 2, step: 10000000ns, arrives: 0ns"));
  CHECK(has(text, "batch: 16, ranks: 2, epochs: 2, step: 8000000ns, arrives: 100000000ns"));
  CHECK(has(text, "cost: 5000ns, output: 4096"));
  CHECK(has(text, "cores: 2, gpus: 4, memory: 16384000000, cache: 256000000"));
  // 100 us, of which 8 are under way; and 500 MB/s.
  CHECK(has(text, "store: {bytes_per_s: 500000000, latency: 12500ns}"));
  for (const auto& [field, value] : answer["recorded"].items()) {
    CAPTURE(field);
    CHECK(answer["as_is"]["figures"][field].get<double>() == doctest::Approx(value.get<double>()));
  }
  CHECK(answer["far"].empty());
  CHECK(answer["end"] == "closed");
  CHECK(answer["best"].is_null());
  CHECK(answer["recorded"]["storage_bytes"] == 2048 * 4096);
  CHECK(run({"run", derived}).code == 0);
}

TEST_CASE("calibrate learns a machine and its data from a journal, as files that scenarios take") {
  if (!sim::can_simulate()) return skipped("SimGrid is not installed");
  const Folder folder;
  const std::string journal = recorded(folder, two_jobs("preset: independent"));
  const std::string cluster = folder.name("c.yaml"), workload = folder.name("w.yaml");
  const Outcome outcome =
      run({"calibrate", journal, "--cluster=" + cluster, "--workload=" + workload, "--json"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  const json learnt = json::parse(outcome.out);
  CHECK(learnt["pipelines"][0]["measured"] == true);
  CHECK(learnt["pipelines"][0]["augment_s"].get<double>() == doctest::Approx(0.001).epsilon(0.05));
  CHECK(learnt["jobs"][0]["step_s"].get<double>() == doctest::Approx(0.005).epsilon(0.02));
  CHECK(learnt["store"]["bytes_per_s"].get<double>() == doctest::Approx(1e8).epsilon(0.1));
  CHECK(content(cluster).find("kind: cluster\nname: recorded\nnodes:\n  - {") != std::string::npos);
  // Both files are taken in place of a scenario's own.
  const std::string again = folder.file(
      "again.yaml", "cluster: " + cluster + "\n" + content(workload) +
                        "jobs: [{dataset: data, pipeline: pipeline-1, batch: 16, step: 5ms}]\n");
  const Outcome ran = run({"run", again, "--json"});
  CAPTURE(content(workload));
  REQUIRE_MESSAGE(ran.code == 0, ran.err);
  CHECK(json::parse(ran.out)["runs"][0]["aggregate"]["samples"] == 640);
  const Outcome cut = run({"calibrate", folder.file("cut", content(journal).substr(0, 10))});
  CHECK(cut.code == 2);
  CHECK(run({"calibrate", folder.name("none")}).code == 2);
}

TEST_CASE("jobs that share need half of the preparations, and that is recommended") {
  if (!sim::can_simulate()) return skipped("SimGrid is not installed");
  const Folder folder;
  const std::string journal = recorded(folder, two_jobs("preset: independent"));
  const json answer = asked({journal, "--seeds", "3", "--policy", "preset=default"});
  CHECK(answer["recorded"]["preparations"] == 2 * 4 * 640);
  CHECK(answer["as_is"]["figures"]["preparations"] == 2 * 4 * 640);
  const json& shares = answer["candidates"][0];
  CHECK(shares["figures"]["preparations"] == 4 * 640);
  CHECK(shares["differences"]["preparations"]["sure"] == true);
  CHECK(shares["choices"] == json{"preset=default"});
  CHECK(answer["best"] == "preset=default");
  const Outcome shown = run({"journal", "whatif", journal, "--policy", "preset=default"});
  CHECK(has(shown.out, "surely better, and most of all: preset=default"));
  CHECK(has(shown.out, "assumed or estimated"));
}

TEST_CASE("memory for all of the data leaves one read of each sample") {
  if (!sim::can_simulate()) return skipped("SimGrid is not installed");
  const Folder folder;
  const std::string journal = recorded(folder, two_jobs("preset: fixed", "4mb"));
  const json answer = asked({journal, "--seeds", "2", "--set", "cluster.nodes.0.cache=256mb"});
  constexpr double kData = 640 * 10'000;
  CHECK(answer["recorded"]["storage_bytes"] > 1.5 * kData);
  CHECK(answer["as_is"]["figures"]["storage_bytes"] > 1.5 * kData);
  CHECK(answer["candidates"][0]["figures"]["storage_bytes"] == kData);
  CHECK(answer["candidates"][0]["label"] == "cluster.nodes.0.cache=256mb");
}

TEST_CASE("of a journal that is cut anywhere, what is whole is used, and what is missing said") {
  if (!sim::can_simulate()) return skipped("SimGrid is not installed");
  const Folder folder;
  const std::string whole = content(recorded(folder, two_jobs("preset: default")));
  const std::size_t each = whole.size() / 23;
  std::size_t used = 0, cut = 0;
  for (std::size_t bytes = 1; bytes < whole.size(); bytes += each) {
    const Outcome outcome =
        run({"journal", "whatif", folder.file("cut", whole.substr(0, bytes)), "--seeds", "1"});
    CAPTURE(bytes);
    CAPTURE(outcome.err);
    if (outcome.code == 0) {
      ++used;
      CHECK(has(outcome.out, "the journal has no end"));
      cut += has(outcome.out, "still ran where the journal ends") ? 1 : 0;
    } else {
      CHECK(outcome.code == 2);
      const bool said = has(outcome.err, "cut before its first step") ||
                        has(outcome.err, "no job has run") ||
                        has(outcome.err, "not a journal of BatchFlow");
      CHECK(said);
    }
  }
  CHECK(used > 15);
  CHECK(cut > 15);
}

TEST_CASE("what cannot be used is refused before anything runs") {
  const Folder folder;
  if (!sim::can_simulate()) return skipped("SimGrid is not installed");
  const std::string journal = recorded(folder, two_jobs("preset: default"));
  const std::string whole = content(journal);
  check_refused(
      {"journal", "whatif",
       folder.file("old", whole.substr(0, 8) + std::string("\4\0\0\0", 4) + whole.substr(12))},
      "version 4");
  const std::string cluster =
      folder.file("other.yaml",
                  "kind: cluster\nnodes: [{name: n, cores: 1, gpus: 8, memory: 1gb, cache: 50%}]\n"
                  "store: {bytes_per_s: 1gb}\n");
  check_refused({"journal", "whatif", journal, "--cluster", cluster}, "another machine");
  check_refused({"journal", "whatif", journal, "--policy", "preset=nosuch"}, "nosuch");
  check_refused({"journal", "whatif", journal, "--set", "cluster.nodes.7.cache=1gb"}, "cluster");
  check_refused({"journal", "whatif", journal, "--scenario", journal}, "overwrite the journal");
  check_refused({"whatif", "four-jobs", "--from", "soon"}, "not a time");
}

TEST_CASE("a measured machine brings its store, and keeps the recorded memory") {
  if (!sim::can_simulate()) return skipped("SimGrid is not installed");
  const Folder folder;
  const std::string journal = recorded(folder, two_jobs("preset: default"));
  const std::string cluster = folder.file(
      "here.yaml",
      "kind: cluster\nnodes: [{name: n, cores: 2, gpus: 8, memory: 64gb, cache: 50%, "
      "memory_bytes_per_s: 10gb}]\nstore: {bytes_per_s: 1gb, latency: 50us, operations_ahead: "
      "4}\n");
  const std::string derived = folder.name("d.yaml");
  asked({journal, "--cluster", cluster, "--scenario", derived, "--seeds", "1"});
  const std::string text = content(derived);
  CAPTURE(text);
  CHECK(has(text, "cache: 256000000, memory_bytes_per_s: \"10gb\""));
  CHECK(has(text, "store: {\"bytes_per_s\": \"1gb\", \"latency\": \"50us\""));
  CHECK(has(text, "store and copies: as measured"));
}

}  // namespace batchflow::test::whatif_test
