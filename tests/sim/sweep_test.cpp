// `batchflow-sim sweep`: what is planned, what is written, and what is left when it is ended.
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <tuple>

#include "core/base/config_value.h"
#include "sim/simulate.h"
#include "sim/study.h"
#include "tests/sim/markup.h"
#include "tests/sim/program.h"
#include "tests/skip.h"
#include "tests/source_dir.h"

namespace batchflow::test::sweep_test {

namespace {

using nlohmann::json;
using sim::can_simulate;
using sim::plan_study;

struct SweepFiles {
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

// Results without what a clock measured.
std::string without_times(const std::string& text) {
  return std::regex_replace(text, std::regex("\"wall_s\": ?[-+.e0-9]+"), "\"wall_s\":0");
}

std::size_t lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

// A `python3` in a folder of its own, which is first in PATH. It makes all runs of the study that
// it is told, and then does what `then` says.
struct OtherMachine {
  explicit OtherMachine(const std::string& then) {
    const std::string make = R"sh(#!/bin/sh
[ "$*" = '-m batchflow.ray_sweep' ] || exit 9
read -r told
word() { echo "$told" | sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/"; }
runs=$(echo "$told" | sed 's/.*"units":\(.*\]\).*/\1/' | tr -c 0-9 ' ')
"$(word program)" sweep-part --fingerprint "$(word fingerprint)" "$(word study)" $runs
)sh";
    std::filesystem::permissions(folder.file("python3", make + then),
                                 std::filesystem::perms::owner_all);
  }
  Prepare first_in_path() const {
    return
        [path = folder.path().string() + ":" + getenv("PATH")] { setenv("PATH", path.c_str(), 1); };
  }
  Folder folder;
};

}  // namespace

TEST_CASE("a study is planned out: grids crossed, policies last, seeds within a point") {
  const SweepFiles files;
  const sim::StudyPlan plan = sim::plan_study(files.study(kGrid));
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
  const sim::StudyPlan list = sim::plan_study(files.study(
      "set: {jobs.0.epochs: 2}\nseed: 9\n"
      "list: [{jobs.0.batch: 32, jobs.0.count: 1}, {jobs.0.batch: 16, jobs.0.count: 3}]\n"));
  REQUIRE(list.runs.size() == 2);
  CHECK(list.runs[1].label == "jobs.0.batch, jobs.0.count=16, 3");
  CHECK(list.runs[1].scenario.jobs.size() == 3);
  CHECK(list.runs[0].scenario.jobs[0].epochs == 2);
  CHECK(list.runs[0].scenario.seed == 9);
  CHECK(plan.fingerprint != list.fingerprint);
  CHECK(plan.fingerprint == sim::plan_study(files.study("# a remark\n" + kGrid)).fingerprint);
}

TEST_CASE("a study that cannot be is refused, with its place") {
  const SweepFiles files;
  const auto problem = [&](const std::string& more) {
    try {
      sim::plan_study(files.study(more));
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
  refused("policies: [lru]\n", "study.yaml:3: key 'policies': 'lru' names no kind");
  refused("policies: [preset=indepedent]\n", "study.yaml:3: key 'policies': ");
  refused("set: {engine.preset: none}\n", "study.yaml:3: key 'engine.preset'");
  refused("grid: {seed: [1, 2, 1]}\n",
          "study.yaml:3: key 'grid.seed': 1 stands there twice; leave one out");
  refused("list: [{seed: 1}, {seed: 1}]\n",
          "study.yaml:3: key 'list': an entry stands there twice; leave one out");
  refused("grid: {seed: [1, 2]}\nseeds: 10000\npolicies: [preset=default]\nkind: study\n", "twice");
  CHECK(run({"sweep", "store-and-core"}).err.find("write 'store-and-cores'") != std::string::npos);
  check_refused({"sweep"}, "no study");
  check_refused({"sweep", files.scenario}, "this is a");
  CHECK(run({"sweep", "--gen-config"}).code == 0);
  files.folder.file("generated.yaml", run({"sweep", "--gen-config"}).out);
  CHECK(sim::plan_study(files.folder.name("generated.yaml")).runs.size() == 4);
}

TEST_CASE("a sweep answers with a table, JSON, CSV and a report") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const SweepFiles files;
  const std::string html = files.folder.name("r.html");
  const std::string csv = files.folder.name("r.csv");
  const Outcome outcome = run({"sweep", files.study(kGrid), "-j", "2", "--out", files.out, "--json",
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
  const std::string file = files.folder.file("r.json", outcome.out);
  CHECK(run({"compare", file, file}).code == 0);
}

TEST_CASE("a policy that sees links avoids a slow one, and costs nothing where there is none") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const SweepFiles files;
  const Outcome outcome = run({"sweep", "slow-link", "--out", files.out, "--json"});
  REQUIRE(outcome.code == 0);
  const json points = json::parse(outcome.out)["points"];
  REQUIRE(points.size() == 12);  // each of two policies, one behind the other
  for (std::size_t i = 0; i < points.size(); i += 2) {
    const auto samples_per_s = [&](std::size_t point) {
      return points[point]["figures"]["samples_per_s"]["mean"].get<double>();
    };
    CHECK(points[i]["values"]["policy"] == "dispatch=batchflow");
    CHECK(points[i + 1]["values"]["policy"] == "dispatch=nearest-by-link");
    const bool slow = points[i]["values"]["cluster.nodes.1.nic_bytes_per_s"] != "1250mb";
    CHECK(samples_per_s(i + 1) > (slow ? 2.0 : 0.98) * samples_per_s(i));
  }
}

TEST_CASE("a sweep that is killed goes on where it was, and ends with the same results") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const SweepFiles files;
  const std::string study = files.study("grid: {jobs.0.batch: [16, 32]}\nseeds: 40\n");
  const std::string whole = files.folder.name("whole.jsonl");
  const Outcome uninterrupted = run({"sweep", study, "--out", whole, "--json"});
  REQUIRE(uninterrupted.code == 0);

  const Folder streams;
  const pid_t child = start({"sweep", study, "--out", files.out}, streams);
  while (lines(content(files.out)) < 5) usleep(1000);
  check_refused({"sweep", study, "--out", files.out, "--resume"}, "another sweep");
  kill(child, SIGKILL);
  CHECK(finish(child, streams).code == 1000 + SIGKILL);
  const std::size_t had = lines(content(files.out));
  CHECK(had < 81);
  std::ofstream(files.out, std::ios::app) << "{\"run\":3,\"resu";  // a torn line

  check_refused({"sweep", study, "--out", files.out}, "--resume");
  const Outcome resumed = run({"sweep", study, "--out", files.out, "--json", "--resume"});
  CHECK(resumed.code == 0);
  CHECK(without_times(resumed.out) == without_times(uninterrupted.out));
  CHECK(without_times(content(files.out)) == without_times(content(whole)));
  CHECK(lines(content(files.out)) == 81);
  // All results are there: nothing is run, and the same is printed.
  CHECK(run({"sweep", study, "--out", files.out, "--json", "--resume"}).out == resumed.out);

  std::string changed = content(files.scenario);
  changed.replace(changed.find("step: 20ms"), 10, "step: 21ms");
  std::ofstream(files.scenario) << changed;
  check_refused({"sweep", study, "--out", files.out, "--resume"},
                "out.jsonl:1: results of another");
  const std::string damaged = files.folder.file(
      "damaged.jsonl", content(whole).substr(0, content(whole).find('\n') + 1) + "x\n");
  CHECK(run({"sweep", study, "--out", damaged, "--resume"}).code == 2);
  const std::string other = files.folder.file("other.jsonl", "hello\n");
  check_refused({"sweep", study, "--out", other, "--resume"}, "other.jsonl:1: not the results");
}

TEST_CASE("Ctrl-C leaves the results so far, and says how to go on") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const SweepFiles files;
  const std::string study = files.study("seeds: 200\n");
  const std::string partial = files.folder.name("partial.json");
  const Folder streams;
  const pid_t child = start({"sweep", study, "--out", files.out, "--json=" + partial}, streams);
  while (lines(content(files.out)) < 4) usleep(1000);
  kill(child, SIGINT);
  const Outcome outcome = finish(child, streams);
  CHECK(outcome.code == 130);
  CHECK(outcome.err.find("--resume makes the rest") != std::string::npos);
  const json result = json::parse(content(partial));
  CHECK(result["runs"].size() >= 3);
  CHECK(result["runs"].size() < 200);
  for (const json& one : result["runs"]) CHECK(one["interrupted"] == false);
  CHECK(lines(content(files.out)) == 1 + result["runs"].size());
}

TEST_CASE("policies that all runs of a study have are shown, with their preset") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const SweepFiles files;
  const auto sweep = [&](const std::string& more) {
    const std::string name = files.folder.name("fixed.json"),
                      html = files.folder.name("fixed.html");
    const Outcome outcome =
        run({"sweep", files.study(more), "--out", files.out, "--json=" + name, "--html", html});
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    std::filesystem::remove(files.out);
    return std::tuple(outcome.out, json::parse(content(name)), content(html));
  };
  const auto [table, result, html] = sweep(
      "policies: [preset=independent, eviction=lru]\ngrid: {cluster.store.bytes_per_s: [1mb, "
      "9mb]}\n");
  const std::string fixed = "preset=independent, eviction=lru";
  CHECK(table.find("policies in all runs: " + fixed + "\n") != std::string::npos);
  CHECK(html.find("Policies in all runs: " + fixed + ".") != std::string::npos);
  CHECK(result["study"]["policies"] == json{{"preset", "independent"},
                                            {"eviction.encoded", "lru"},
                                            {"eviction.decoded", "lru"},
                                            {"eviction.drive", "lru"},
                                            {"eviction.gpu", "lru"}});
  // What is compared is not fixed; what was not chosen need not be named.
  const auto [varied, both, page] = sweep("policies: [\"preset=independent,default\"]\n");
  CHECK(varied.find("policies in all runs") == std::string::npos);
  CHECK(both["study"]["policies"] == json::object());
  CHECK(page.find("Policies in all runs") == std::string::npos);
}

TEST_CASE("studies that come with the program can be planned") {
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "configs/studies")) {
    CAPTURE(entry.path());
    CHECK(sim::plan_study(entry.path()).runs.size() > 1);
  }
}

TEST_CASE("what-ifs: a branch that differs in nothing is the run that was not halted") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const SweepFiles files;
  const std::string settings =
      "set: {cluster.store.bytes_per_s: 3mb, jobs.0.epochs: 4, jobs.0.count: 3, "
      "cluster.nodes.0.cache: 9mb, engine.policies.scaling: static}\nseeds: 2\n";
  const auto results = [&](const std::string& more) {
    const Outcome outcome = run(
        {"sweep", files.study(settings + more), "--out", files.folder.name("o.jsonl"), "--json"});
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    std::filesystem::remove(files.folder.name("o.jsonl"));
    return json::parse(outcome.out)["runs"];
  };
  const json whole = results("");
  for (const char* at : {"1ns", "20ms", "700ms", "1.3s", "2s"}) {
    CAPTURE(at);
    const json branches = results(
        "grid: {cluster.store.bytes_per_s: [3mb, 1mb, 30mb], cluster.nodes.0.cores: [4, 1, 8]}\n"
        "warm_start: {at: " +
        std::string(at) + "}\n");
    REQUIRE(branches.size() == 18);
    for (std::size_t seed = 0; seed < 2; ++seed) {
      CHECK(branches[seed]["digest"] == whole[seed]["digest"]);
      CHECK(branches[seed]["makespan_s"] == whole[seed]["makespan_s"]);
      const double same = whole[seed]["makespan_s"];
      CHECK(branches[6 + seed]["makespan_s"] > same);         // a slower store
      CHECK(branches[12 + seed]["makespan_s"] < same);        // a faster one
      CHECK(branches[6 + 2 + seed]["protocol_errors"] == 0);  // and fewer cores
    }
  }
}

TEST_CASE("what-ifs of policies, caches and credits are changes the engine takes") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const SweepFiles files;
  const Outcome outcome =
      run({"sweep",
           files.study("set: {cluster.store.bytes_per_s: 3mb, jobs.0.epochs: 3}\n"
                       "warm_start: {at: 500ms}\n"
                       "policies: [dispatch=earliest-deadline, dispatch=fifo]\n"
                       "grid:\n  engine.credits: [2, 5]\n  cluster.nodes.0.cache: [100%, 3mb]\n"
                       "  engine.policies.eviction.encoded: [minio, lru]\n"),
           "--out", files.out, "--json"});
  CAPTURE(outcome.err);
  CHECK(outcome.code == 0);
  const json runs = json::parse(outcome.out)["runs"];
  REQUIRE(runs.size() == 16);
  for (const json& one : runs) {
    CHECK(one["protocol_errors"] == 0);
    CHECK(one["jobs"][0]["samples"] == 3 * 640);
  }
  CHECK(runs[15]["policies"]["dispatch"] == "fifo");
  CHECK(runs[15]["policies"]["eviction.encoded"] == "lru");
  CHECK(runs[0]["digest"] != runs[15]["digest"]);
  CHECK(runs[0]["cluster"]["cache_bytes"] == 1'000'000'000);
  CHECK(runs[15]["cluster"]["cache_bytes"] == 3'000'000);
}

TEST_CASE("what cannot change in the middle of a run is refused") {
  const SweepFiles files;
  const auto refused = [&](const std::string& more, const std::string& part) {
    check_refused({"sweep", files.study("warm_start: {at: 1s}\n" + more), "--out", files.out},
                  part);
  };
  refused("grid: {jobs.0.batch: [16, 32]}\n", "study.yaml:4: key 'jobs.0.batch': cannot change");
  refused("policies: [preset=default, preset=independent]\n", "a preset cannot change");
  refused("grid: {cluster.store.bytes_per_s: [1mb]}\n", "a rate cannot come or go");
  refused("set: {engine.workers_per_rank: 2}\ngrid: {cluster.nodes.0.cores: [1, 2]}\n",
          "scaling=static");
  check_refused({"sweep", files.study("warm_start: {at: 0s}\n")}, "warm_start.at");
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  check_refused({"sweep", files.study("warm_start: {at: 10h}\n"), "--out", files.out},
                "all jobs are done before");
}

TEST_CASE("what-ifs with a long beginning simulate it once") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const SweepFiles files;
  const std::string settings =
      "set: {jobs.0.epochs: 40, cluster.store.bytes_per_s: 5mb, "
      "engine.policies.dispatch: mischief}\n"
      "grid: {engine.credits: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}\n";
  // What the policy was asked, by all processes together.
  const auto questions = [&](const std::string& more) {
    const std::string counted = files.folder.file("counted", "");
    const Outcome outcome =
        run({"sweep", files.study(settings + more), "-j", "1", "--out", files.out, "--plugin",
             BATCHFLOW_TEST_PLUGINS "/dispatch_counts.so"},
            [&] { setenv("BATCHFLOW_TEST_COUNT", counted.c_str(), 1); });
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    std::filesystem::remove(files.out);
    return std::filesystem::file_size(counted);
  };
  const std::uintmax_t whole = questions("");
  const std::uintmax_t branched = questions("warm_start: {at: 28s}\n");
  CAPTURE(whole);
  CAPTURE(branched);
  CHECK(branched < whole / 2);
  CHECK(branched > whole / 12);
}

TEST_CASE("runs that are made elsewhere have the results of those made here") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const SweepFiles files;
  const std::string there = files.folder.name("there.jsonl");
  for (const char* const beginning : {"", "warm_start: {at: 100ms}\n"}) {
    CAPTURE(beginning);
    const std::string study =
        files.study(beginning + std::string("grid: {engine.credits: [2, 4]}\nseeds: 3\n"));
    const Outcome here = run({"sweep", study, "--out", files.out, "--csv"});
    REQUIRE(here.code == 0);
    // What it says beside is passed over or said, and a result that comes again is no other.
    const OtherMachine other("echo nothing\necho '{\"note\":\"node 7 is lost\"}'\n");
    const Outcome outcome =
        run({"sweep", study, "--engine", "ray", "--out", there, "--csv"}, other.first_in_path());
    CAPTURE(outcome.err);
    CHECK(outcome.code == 0);
    CHECK(outcome.err.find("node 7 is lost") != std::string::npos);
    CHECK(outcome.out == here.out);
    CHECK(without_times(content(there)) == without_times(content(files.out)));
    std::filesystem::remove(there);
    std::filesystem::remove(files.out);
  }
}

TEST_CASE("what goes wrong elsewhere is said") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const SweepFiles files;
  const std::string study = files.study("seeds: 2\n");
  const auto sweep = [&](const OtherMachine& other) {
    return run({"sweep", study, "--engine", "ray", "--out", files.out, "--resume"},
               other.first_in_path());
  };
  const Outcome problem = sweep(OtherMachine("echo '{\"problem\":\"node 7 is too old\"}'\n"));
  CHECK(problem.code == 2);
  CHECK(problem.err == "batchflow-sim: node 7 is too old\n");
  std::filesystem::remove(files.out);
  const Outcome ended = sweep(OtherMachine("exit 3\n"));
  CHECK(ended.code == 2);
  CHECK(ended.err.find("`python3 -m batchflow.ray_sweep` ended with code 3") != std::string::npos);
  check_refused({"sweep", study, "--engine", "slurm"}, "--engine");
  check_refused({"sweep", "-", "--engine", "ray", "--out", files.out}, "name a file");
  check_refused({"sweep-part", "--fingerprint", "0", study, "0"}, "not the same here");
  check_refused({"sweep-part", "--fingerprint", sim::plan_study(study).fingerprint, study, "2"},
                "no run 2");
}

TEST_CASE("an interrupt ends what makes runs elsewhere") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const SweepFiles files;
  const Folder folder;
  // Its standard input ends, and so does it.
  const OtherMachine other("cat > /dev/null\n");
  const pid_t sweep =
      start({"sweep", files.study("seeds: 2\n"), "--engine", "ray", "--out", files.out}, folder,
            other.first_in_path());
  while (lines(content(files.out)) < 3) usleep(1000);
  kill(sweep, SIGINT);
  const Outcome outcome = finish(sweep, folder);
  CHECK(outcome.code == 0);  // all results were there
  CHECK(outcome.out.find("2 of 2 runs") != std::string::npos);
}

}  // namespace batchflow::test::sweep_test
