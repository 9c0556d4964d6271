// `batchflow-sim replay` as a user calls it: what it prints, what it refuses, and what it leaves
// when it is stopped.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "sim/simulate.h"
#include "tests/sim/markup.h"
#include "tests/sim/program.h"
#include "tests/skip.h"

namespace batchflow::test::cli_replay_test {

namespace {

using nlohmann::json;
using sim::can_simulate;

const std::string kTrace = "gen:cluster,jobs=60,days=1,gpus=16";

using Words = std::vector<std::string>;

Words replay(const Words& more, const std::string& trace = kTrace) {
  Words words{"replay", trace, "--cluster", "dgx", "--overlay", "hp-search"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("a replay answers with a table, JSON, CSV and a report that stands alone") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const std::string html_path = folder.name("r.html");
  const std::string csv_path = folder.name("jobs.csv");
  const Outcome outcome = run(replay({"--policy", "preset=independent,default", "--seeds", "2",
                                      "--json", "--html", html_path, "--jobs-csv=" + csv_path}));
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(outcome.err.find("60 of 60 jobs are replayed") != std::string::npos);
  CHECK(outcome.err.find("GPU time lost") != std::string::npos);
  CHECK(outcome.err.find("preset=default against preset=independent: completion ") !=
        std::string::npos);
  CHECK(outcome.err.find("no policy ends before") != std::string::npos);

  const json result = json::parse(outcome.out);
  CHECK(result["command"] == "replay");
  REQUIRE(result["runs"].size() == 4);
  REQUIRE(result["summaries"].size() == 4);
  CHECK(result["left_out"]["by_window"] == 0);
  for (std::size_t i = 0; i < 4; ++i) {
    const json& sum = result["summaries"][i];
    CHECK(sum["label"] == result["runs"][i]["label"]);
    CHECK(sum["jobs"] == 60);
    CHECK(sum["jobs_done"] == 60);
    CHECK(sum["whole"] == true);
    CHECK(sum["bound"]["arrivals_s"] <= sum["makespan_s"]);
    double lost_h = 0;
    for (const json& job : result["runs"][i]["jobs"]) {
      lost_h += (job["stall_s"].get<double>() + job["idle_s"].get<double>()) *
                job["ranks"].get<double>() / 3600;
    }
    CHECK(sum["gpu_h_lost"].get<double>() == doctest::Approx(lost_h));
  }
  // Another seed changes the assumptions; another policy does not.
  CHECK(result["summaries"][0]["bound"] == result["summaries"][2]["bound"]);
  CHECK(result["summaries"][0]["bound"] != result["summaries"][1]["bound"]);

  const std::string csv = content(csv_path);
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 1 + 4 * 60);
  const std::string html = content(html_path);
  check_stands_alone(html);
  for (const char* id :
       {"replay", "jobs-times", "lost", "traffic", "bound", "assumed", "left-out"}) {
    CAPTURE(id);
    CHECK(html.find("<section id=\"" + std::string(id) + "\">") != std::string::npos);
  }
  CHECK(html.find("What is assumed") != std::string::npos);
  CHECK(html.find("id=\"sensitivity\"") == std::string::npos);
  CHECK(html.find("data-xkind=\"log-seconds\"") != std::string::npos);
}

TEST_CASE("a replay is the same again") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const auto digest = [](const Outcome& outcome) {
    return json::parse(outcome.out)["runs"][0]["digest"].get<std::string>();
  };
  const std::string first = digest(run(replay({"--json"})));
  CHECK(digest(run(replay({"--json"}))) == first);
  CHECK(digest(run(replay({"--json", "--seed", "2"}))) != first);
  CHECK(digest(run(replay({"--json", "--scheduler", "las"}))) != first);
}

TEST_CASE("a window replays what was submitted in it, and says what was not") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Outcome outcome = run(replay({"--from", "2018-01-01T12:00", "--to", "23h", "--json"}));
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  const json result = json::parse(outcome.out);
  const auto left_out = result["left_out"]["by_window"].get<std::size_t>();
  CHECK(left_out > 0);
  CHECK(left_out + result["runs"][0]["jobs"].size() == 60);
  CHECK(outcome.err.find("were submitted outside of the window") != std::string::npos);
}

TEST_CASE("sensitivity: each assumption lower and higher, beside the runs as they were asked for") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const std::string html_path = folder.name("r.html");
  const Outcome outcome =
      run(replay({"--policy", "preset=independent,default", "--sensitivity", "--json", "--html",
                  html_path, "--set", "cluster.store.bytes_per_s=50mb"},
                 "gen:cluster,jobs=20,days=1,gpus=16"));
  CAPTURE(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK(outcome.err.find("GPU time lost, by what is assumed:\n") != std::string::npos);
  const json result = json::parse(outcome.out);
  CHECK(result["runs"].size() == 2);
  const json& study = result["sensitivity"];
  REQUIRE(study.size() == 1 + 2 * 8);
  CHECK(study[1]["assumption"] == "busy 90.0 %");
  CHECK(study[1]["value"] == "45.0 %");
  CHECK(study[2]["value"] == "95.0 %");
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(study[0]["policies"][i]["gpu_h_lost"] == result["summaries"][i]["gpu_h_lost"]);
  }
  CHECK(study[0]["last_less_first_gpu_h"].get<double>() ==
        doctest::Approx(result["summaries"][1]["gpu_h_lost"].get<double>() -
                        result["summaries"][0]["gpu_h_lost"].get<double>()));
  std::size_t moved = 0;
  for (std::size_t i = 1; i < study.size(); ++i) {
    moved += study[i]["policies"] != study[0]["policies"];
  }
  CHECK(moved >= 12);
  const std::string html = content(html_path);
  check_stands_alone(html);
  CHECK(html.find("id=\"sensitivity\"") != std::string::npos);
}

TEST_CASE("replay: bad input is one line with its place and remedy, before anything runs") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  check_refused({"replay", kTrace, "--cluster", "phily"}, "write 'philly'");
  check_refused({"replay", kTrace, "--overlay", "mixd"}, "write 'mixed'");
  check_refused({"replay", kTrace, "--scheduler", "fifa"}, "fifo");
  check_refused({"replay", kTrace, "--policy", "preset=defalt"}, "did you mean 'default'?");
  check_refused({"replay", "gen:clustr"}, "gen:cluster");
  check_refused({"replay", "gen:cluster,job=5"}, "jobs");
  check_refused({"replay", "/nowhere"}, "No such file");
  check_refused({"replay", kTrace, "--from", "soon"}, "write a day");
  check_refused({"replay", kTrace, "--from", "2d", "--to", "1d"},
                "--from 2d is not before --to 1d");
  check_refused({"replay", kTrace, "--from", "400d"}, "none of its 60 jobs can be replayed");
  check_refused({"replay", kTrace, "--scale-gpus", "0"}, "--scale-gpus");
  check_refused({"replay", kTrace, "--steps", "0"}, "--steps");
  check_refused({"replay", kTrace, "--assume", "resue=1"}, "did you mean 'reuse'?");
  check_refused({"replay", kTrace, "--set", "engine.policy=1"}, "did you mean");
  check_refused({"replay", kTrace, "--html", "/nowhere/r.html"}, "/nowhere/r.html");
  check_refused({"replay", kTrace, "--html", "/tmp/x.bf", "--json=/tmp/x.bf"}, "cannot both");
  const Folder folder;
  const std::string overlay =
      folder.file("o.yaml", "classes:\n- {name: a, samples_per_s: 0, dataset: {samples: 1}}\n");
  check_refused({"replay", kTrace, "--overlay", overlay},
                "o.yaml:2: key 'classes.0.dataset.bytes'");
  const std::string log = folder.file("jobs.csv", "id,submit_s,duration_s,gpus\n1,0,60,1\n");
  check_refused({"replay", log, "--html", log}, "would overwrite what is read");
  check_refused({"replay", log, "--format", "helois"}, "write 'helios'");
  CHECK(folder.files() == 2);
}

TEST_CASE("replay: an interrupt leaves what there is so far, whole, and says so") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const std::string json_path = folder.name("r.json");
  const std::string html_path = folder.name("r.html");
  const pid_t child = start(replay({"--json=" + json_path, "--html", html_path, "--steps", "20000",
                                    "--policy", "preset=default,independent"}),
                            folder);
  wait_until_it_handles(child, SIGINT);
  usleep(800'000);
  kill(child, SIGINT);
  const Outcome outcome = finish(child, folder);
  CAPTURE(outcome.err);
  CHECK(outcome.code == 130);
  CHECK(outcome.err.find("batchflow-sim: interrupted") != std::string::npos);
  if (!std::filesystem::exists(json_path)) return;  // before there were results
  const json result = json::parse(content(json_path));
  CHECK(result["runs"][0]["interrupted"] == true);
  CHECK(result["summaries"][0]["whole"] == false);
  check_stands_alone(content(html_path));
}

TEST_CASE("replay: a full disk is a failure that is reported, and nothing stays behind") {
  if (!sim::can_simulate()) return skipped("built without SimGrid");
  const Folder folder;
  const std::string small = "gen:cluster,jobs=10,days=1,gpus=8";
  const Outcome device = run(replay({"--html", "/dev/full"}, small));
  CHECK(device.code == 1);
  CHECK(device.err.find("/dev/full: cannot be written: No space left on device") !=
        std::string::npos);
  const Outcome file = run(replay({"--html", folder.name("r.html")}, small), [] {
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
  });
  CHECK(file.code == 1);
  CHECK(folder.files() == 0);
}

}  // namespace batchflow::test::cli_replay_test
