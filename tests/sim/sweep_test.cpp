// `batchflow-sim sweep`: what is planned, what is written, and what is left when it is ended.
#include <doctest/doctest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <regex>

#include "core/config_error.h"
#include "sim/simulate.h"
#include "sim/study.h"
#include "tests/sim/markup.h"
#include "tests/sim/program.h"
#include "tests/skip.h"

namespace batchflow::test {

namespace {

using nlohmann::json;
using sim::can_simulate;
using sim::plan_study;

struct Place {
  Folder folder;
  std::string scenario =
      folder.file("scenario.yaml",
                  "kind: scenario\nname: small\n"
                  "cluster: {nodes: [{name: node, cores: 4, gpus: 4, memory: 1gb}], store: {}}\n"
                  "datasets: [{name: data, samples: 640, bytes: 10kb}]\n"
                  "pipelines: [{name: train, steps: [{name: crop, random: true, cost: 1ms}]}]\n"
                  "jobs: [{dataset: data, pipeline: train, count: 2, batch: 16, step: 20ms, "
                  "step_jitter: 0.2}]\n"
                  "grain: {items_per_block: 16}\n");
  std::string out = folder.name("out.jsonl");

  std::string study(const std::string& more) const {
    return folder.file("study.yaml", "kind: study\nscenario: ./scenario.yaml\n" + more);
  }
};

const std::string kGrid =
    "policies: [preset=independent, preset=default]\n"
    "grid:\n"
    "  cluster.store.bytes_per_s: [1mb, 10mb]\n"
    "seeds: 3\n";

// Results but for what a clock measured.
std::string without_times(const std::string& text) {
  return std::regex_replace(text, std::regex("\"wall_s\": ?[-+.e0-9]+"), "\"wall_s\":0");
}

std::size_t lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_CASE("a study is planned out: grids crossed, policies last, seeds within a point") {
  const Place place;
  const sim::StudyPlan plan = plan_study(place.study(kGrid));
  REQUIRE(plan.axes.size() == 2);
  CHECK(plan.axes[1].name == "policy");
  CHECK(plan.points.size() == 4);
  REQUIRE(plan.runs.size() == 12);
  CHECK(plan.runs[3].label == "cluster.store.bytes_per_s=1mb preset=default");
  CHECK(plan.runs[4].scenario.seed == 2);
  CHECK(plan.runs[4].scenario.engine.seed == 2);
  CHECK(plan.runs[4].scenario.engine.preset == "default");
  CHECK(plan.runs[6].scenario.cluster.store.bytes_per_s.at(1) == 10e6);
  CHECK(plan.point_of(7) == 2);
  const sim::StudyPlan list = plan_study(place.study(
      "set: {jobs.0.epochs: 2}\nseed: 9\n"
      "list: [{jobs.0.batch: 32, jobs.0.count: 1}, {jobs.0.batch: 16, jobs.0.count: 3}]\n"));
  REQUIRE(list.runs.size() == 2);
  CHECK(list.runs[1].label == "jobs.0.batch, jobs.0.count=16, 3");
  CHECK(list.runs[1].scenario.jobs.size() == 3);
  CHECK(list.runs[0].scenario.jobs[0].epochs == 2);
  CHECK(list.runs[0].scenario.seed == 9);
  CHECK(plan.fingerprint != list.fingerprint);
  CHECK(plan.fingerprint == plan_study(place.study("# a remark\n" + kGrid)).fingerprint);
}

TEST_CASE("a study that cannot be is refused, with its place") {
  const Place place;
  const auto problem = [&](const std::string& more) {
    try {
      plan_study(place.study(more));
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const auto refused = [&](const std::string& more, const std::string& part) {
    const std::string said = problem(more);
    CAPTURE(said);
    CHECK(said.find(part) != std::string::npos);
  };
  refused("grid: {cluster.store.byte_per_s: [1mb]}\n",
          "study.yaml:3: key 'cluster.store.byte_per_s'");
  refused("grid: {jobs.0.batch: 3}\n", "study.yaml:3: key 'grid.jobs.0.batch': not a list");
  refused("grid: [1]\n", "key 'grid'");
  refused("grid: {seed: [1]}\nlist: [{seed: 1}]\n", "keep one");
  refused("list: [{jobs.0.batch: 16}, {jobs.0.count: 2}]\n", "other paths");
  refused("sedes: 4\n", "did you mean 'seeds'");
  refused("seeds: 0\n", "key 'seeds'");
  refused("figures: [speed]\n", "key 'figures'");
  refused("policies: [lru]\n", "no kind");
  refused("grid: {seed: [1, 2]}\nseeds: 10000\npolicies: [preset=default]\nkind: study\n", "twice");
  CHECK(run({"sweep", "store-and-core"}).err.find("write 'store-and-cores'") != std::string::npos);
  check_refused({"sweep"}, "no study");
  check_refused({"sweep", place.scenario}, "this is a");
  CHECK(run({"sweep", "--gen-config"}).code == 0);
  place.folder.file("generated.yaml", run({"sweep", "--gen-config"}).out);
  CHECK(plan_study(place.folder.name("generated.yaml")).runs.size() == 4);
}

TEST_CASE("a sweep answers with a table, JSON, CSV and a report") {
  if (!can_simulate()) return skipped("built without SimGrid");
  const Place place;
  const std::string html = place.folder.name("r.html");
  const std::string csv = place.folder.name("r.csv");
  const Outcome outcome = run({"sweep", place.study(kGrid), "-j", "2", "--out", place.out, "--json",
                               "--csv=" + csv, "--html", html});
  REQUIRE(outcome.code == 0);
  CHECK(outcome.err.find("12 of 12 runs") != std::string::npos);
  const json result = json::parse(outcome.out);
  CHECK(result["command"] == "sweep");
  REQUIRE(result["runs"].size() == 12);
  REQUIRE(result["points"].size() == 4);
  double sum = 0;
  for (std::size_t i = 0; i < 3; ++i) sum += result["runs"][i]["makespan_s"].get<double>();
  const json& makespan = result["points"][0]["figures"]["makespan_s"];
  CHECK(makespan["mean"].get<double>() == doctest::Approx(sum / 3));
  CHECK(makespan["count"] == 3);
  CHECK(makespan["margin"] > 0);
  CHECK(result["points"][0]["values"]["policy"] == "preset=independent");
  CHECK(lines(content(csv)) == 13);
  CHECK(content(csv).starts_with("cluster.store.bytes_per_s,policy,seed,makespan_s,samples_per_s"));
  const std::string report = content(html);
  check_stands_alone(report);
  const auto figures = figures_of(report);
  CHECK(std::stod(figures.at(0).second) == makespan["mean"].get<double>());
  // `compare` takes its results.
  const std::string file = place.folder.file("r.json", outcome.out);
  CHECK(run({"compare", file, file}).code == 0);
}

TEST_CASE("a sweep that is killed goes on where it was, and ends with the same results") {
  if (!can_simulate()) return skipped("built without SimGrid");
  const Place place;
  const std::string study = place.study("grid: {jobs.0.batch: [16, 32]}\nseeds: 40\n");
  const std::string whole = place.folder.name("whole.jsonl");
  const Outcome uninterrupted = run({"sweep", study, "--out", whole, "--json"});
  REQUIRE(uninterrupted.code == 0);

  const Folder streams;
  const pid_t child = start({"sweep", study, "--out", place.out}, streams);
  while (lines(content(place.out)) < 5) usleep(1000);
  check_refused({"sweep", study, "--out", place.out, "--resume"}, "another sweep");
  kill(child, SIGKILL);
  CHECK(finish(child, streams).code == 1000 + SIGKILL);
  const std::size_t had = lines(content(place.out));
  CHECK(had < 81);
  std::ofstream(place.out, std::ios::app) << "{\"run\":3,\"resu";  // a torn line

  check_refused({"sweep", study, "--out", place.out}, "--resume");
  const Outcome resumed = run({"sweep", study, "--out", place.out, "--json", "--resume"});
  CHECK(resumed.code == 0);
  CHECK(without_times(resumed.out) == without_times(uninterrupted.out));
  CHECK(without_times(content(place.out)) == without_times(content(whole)));
  CHECK(lines(content(place.out)) == 81);
  // All is there: nothing is run, and the same is said.
  CHECK(run({"sweep", study, "--out", place.out, "--json", "--resume"}).out == resumed.out);

  std::string changed = content(place.scenario);
  changed.replace(changed.find("step: 20ms"), 10, "step: 21ms");
  std::ofstream(place.scenario) << changed;
  check_refused({"sweep", study, "--out", place.out, "--resume"},
                "out.jsonl:1: results of another");
  const std::string damaged = place.folder.file(
      "damaged.jsonl", content(whole).substr(0, content(whole).find('\n') + 1) + "x\n");
  CHECK(run({"sweep", study, "--out", damaged, "--resume"}).code == 2);
  const std::string other = place.folder.file("other.jsonl", "hello\n");
  check_refused({"sweep", study, "--out", other, "--resume"}, "other.jsonl:1: not the results");
}

TEST_CASE("Ctrl-C leaves the results so far, and says how to go on") {
  if (!can_simulate()) return skipped("built without SimGrid");
  const Place place;
  const std::string study = place.study("seeds: 200\n");
  const std::string partial = place.folder.name("partial.json");
  const Folder streams;
  const pid_t child = start({"sweep", study, "--out", place.out, "--json=" + partial}, streams);
  while (lines(content(place.out)) < 4) usleep(1000);
  kill(child, SIGINT);
  const Outcome outcome = finish(child, streams);
  CHECK(outcome.code == 130);
  CHECK(outcome.err.find("--resume makes the rest") != std::string::npos);
  const json result = json::parse(content(partial));
  CHECK(result["runs"].size() >= 3);
  CHECK(result["runs"].size() < 200);
  for (const json& one : result["runs"]) CHECK(one["interrupted"] == false);
  CHECK(lines(content(place.out)) == 1 + result["runs"].size());
}

}  // namespace batchflow::test
