// `batchflow-sim compare`: which runs belong together, what differs, and what is refused.
#include "sim/compare.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/sim/program.h"

namespace batchflow::test::compare_test {

namespace {

using nlohmann::json;
using sim::compare;
using sim::Comparison;

output::RunResult run_of(const std::string& label, std::uint64_t seed, double makespan_s) {
  output::RunResult run;
  run.scenario = "s";
  run.label = label;
  run.seed = seed;
  run.makespan_s = makespan_s;
  run.jobs.resize(1);
  run.jobs[0].name = "job";
  run.jobs[0].time_s = makespan_s / 2;
  return run;
}

std::string file_of(const Folder& folder, const std::string& name,
                    const std::vector<output::RunResult>& runs) {
  return folder.file(name, output::text_of(output::results_json(runs, "run", "0")));
}

}  // namespace

TEST_CASE("runs belong together by scenario and label, seeds make a group") {
  const std::vector<output::RunResult> a = {run_of("x", 1, 10), run_of("x", 2, 20),
                                            run_of("y", 1, 5)};
  const std::vector<output::RunResult> b = {run_of("x", 2, 22), run_of("x", 1, 12),
                                            run_of("z", 1, 5)};
  const Comparison comparison = sim::compare(a, b);
  REQUIRE(comparison.matches.size() == 1);
  const sim::Match& match = comparison.matches[0];
  CHECK(match.paired);
  CHECK(match.figures[0].a == doctest::Approx(15));
  CHECK(match.figures[0].difference.mean == doctest::Approx(2));
  CHECK(sim::is_significant(match.figures[0].difference));
  REQUIRE(match.jobs.size() == 1);
  CHECK(match.jobs[0].b.time_s == doctest::Approx(8.5));
  CHECK(comparison.only_a.at(0).label == "y");
  CHECK(comparison.only_b.at(0).label == "z");
  // One group of each: they belong together under any names.
  CHECK(sim::compare({run_of("p", 1, 1)}, {run_of("q", 1, 2)}).matches.size() == 1);
  CHECK_FALSE(sim::compare({run_of("p", 1, 1)}, {run_of("q", 2, 2)}).matches[0].paired);
}

TEST_CASE("policies that all runs of a file have are shown beside it") {
  const Folder folder;
  const auto with = [](output::RunResult one, const std::string& preset,
                       const std::string& eviction) {
    one.policies = {{"preset", preset}, {"eviction.encoded", eviction}, {"dispatch", "fifo"}};
    return one;
  };
  // The preset independent stands for fifo, and the preset default does not.
  const std::string a = file_of(folder, "a.json",
                                {with(run_of("x", 1, 10), "independent", "lru"),
                                 with(run_of("x", 2, 20), "independent", "lru")});
  const std::string b = file_of(
      folder, "b.json",
      {with(run_of("x", 1, 12), "default", "lru"), with(run_of("y", 1, 22), "default", "minio")});
  const Outcome table = run({"compare", a, b});
  CHECK(table.out.find("a.json (preset=independent, eviction.encoded=lru in all runs)\n") !=
        std::string::npos);
  CHECK(table.out.find("b.json (preset=default, dispatch=fifo in all runs)\n") !=
        std::string::npos);
  const json result = json::parse(run({"compare", a, b, "--json"}).out);
  CHECK(result["policies_a"] == json{{"preset", "independent"}, {"eviction.encoded", "lru"}});
  CHECK(result["policies_b"] == json{{"preset", "default"}, {"dispatch", "fifo"}});
}

TEST_CASE("each setting that differs is named, policies and eviction of each form included") {
  const Folder folder;
  output::RunResult one = run_of("", 1, 10);
  one.policies = {{"preset", "default"}, {"eviction.encoded", "lru"}, {"eviction.prepared", "lru"}};
  one.settings = {{"credits", "3"}, {"blocks_least", "8"}, {"retry_wait", "10ns"}};
  one.workload = {{"dataset d", "8 samples of 4 bytes"}, {"job job", "1 ranks"}};
  one.cluster.cores = 2;
  output::RunResult other = one;
  other.policies[2].second = "refcount";
  other.settings[0].second = "2";
  other.settings[1].second = "1";
  other.cluster.cores = 4;
  other.cluster.store_bytes_per_s = 100;
  other.remark = "run live: 2 workers, not 4";
  const std::string a = file_of(folder, "a.json", {one});
  const std::string b = file_of(folder, "b.json", {other});
  const json match = json::parse(run({"compare", a, b, "--json"}).out)["matches"][0];
  CHECK(match["same_scenario"] == true);
  CHECK(match["workload"].empty());
  const auto differs = [](const char* what, const char* x, const char* y) {
    return json{{"what", what}, {"a", x}, {"b", y}};
  };
  CHECK(match["settings"] == json{differs("eviction.prepared", "lru", "refcount"),
                                  differs("credits", "3", "2"), differs("blocks_least", "8", "1"),
                                  differs("cluster.cores", "2", "4"),
                                  differs("cluster.store_bytes_per_s", "no limit", "100")});
  CHECK(match["notes_a"].empty());
  CHECK(match["notes_b"] == json{"run live: 2 workers, not 4"});
  const std::string table = run({"compare", a, b}).out;
  CHECK(table.find("NOT THE SAME SCENARIO") == std::string::npos);
  CHECK(table.find("\neviction.prepared ") != std::string::npos);
  CHECK(table.find("\nretry_wait ") == std::string::npos);
  CHECK(table.find("\nB: run live: 2 workers, not 4\n") != std::string::npos);
  const std::string same = run({"compare", a, a}).out;
  CHECK(same.find("not the same") == std::string::npos);
}

TEST_CASE("what differs in all pairs of runs is said once") {
  output::RunResult x = run_of("x", 1, 10), y = run_of("y", 1, 10);
  x.settings = y.settings = {{"credits", "3"}, {"seed", "1"}};
  x.workload = y.workload = {{"dataset d", "8 samples"}};
  output::RunResult other_x = x, other_y = y;
  other_x.settings[0].second = other_y.settings[0].second = "2";
  other_y.settings[1].second = "9";
  const std::vector<output::RunResult> a = {x, y}, b = {other_x, other_y};
  const std::string table = sim::comparison_table(sim::compare(a, b));
  const auto count = [&](const std::string& text) {
    std::size_t times = 0;
    for (std::size_t at = table.find(text); at != std::string::npos; at = table.find(text, at + 1))
      ++times;
    return times;
  };
  CHECK(count("not the same in all runs\n") == 1);
  CHECK(count("\ncredits ") == 1);
  CHECK(count("\nseed ") == 1);
  CHECK(count("not the same") == 2);
}

TEST_CASE("two scenarios are not compared in silence") {
  const Folder folder;
  output::RunResult one = run_of("", 1, 10);
  one.settings = {{"credits", "3"}};
  one.workload = {{"dataset d", "8 samples of 4 bytes"}, {"job job", "1 ranks"}};
  output::RunResult other = one;
  other.workload = {{"dataset d", "9 samples of 4 bytes"}, {"job job", "1 ranks"}, {"job k", "2"}};
  const std::string a = file_of(folder, "a.json", {one});
  const std::string b = file_of(folder, "b.json", {other});
  const std::string table = run({"compare", a, b}).out;
  CHECK(table.find("\nNOT THE SAME SCENARIO: the jobs or their data differ\n"
                   "dataset d\n  A: 8 samples of 4 bytes\n  B: 9 samples of 4 bytes\n"
                   "job k\n  A: -\n  B: 2\n") != std::string::npos);
  const json match = json::parse(run({"compare", a, b, "--json"}).out)["matches"][0];
  CHECK(match["same_scenario"] == false);
  CHECK(match["workload"].size() == 2);
  // An older version has not written what could be compared.
  const std::string old = file_of(folder, "old.json", {run_of("", 1, 10)});
  const Outcome unknown = run({"compare", old, a});
  CHECK(
      unknown.out.find("\nA: written by an older version: its jobs or settings are not known\n") !=
      std::string::npos);
  CHECK(unknown.out.find("B: written") == std::string::npos);
}

TEST_CASE("a refused job is named, and has no times") {
  const Folder folder;
  output::RunResult one = run_of("", 1, 10);
  one.jobs.resize(3);
  one.jobs[1].name = "large";
  one.jobs[1].time_s = 4;
  one.jobs[2].name = "gone";
  output::RunResult other = run_of("", 1, 10);
  other.jobs.resize(2);
  other.jobs[1].name = "large";
  other.jobs[1].state = "refused";
  other.jobs[1].refusal = "no room";
  const std::string a = file_of(folder, "a.json", {one});
  const std::string b = file_of(folder, "b.json", {other});
  const std::string table = run({"compare", a, b}).out;
  CHECK(table.find("\nB: job large was refused: no room\n") != std::string::npos);
  CHECK(table.find("\nA alone has job gone\n") != std::string::npos);
  CHECK(table.find("\nlarge") != std::string::npos);
  const json match = json::parse(run({"compare", a, b, "--json"}).out)["matches"][0];
  CHECK(match["refused_a"].empty());
  CHECK(match["refused_b"] == json{{{"name", "large"}, {"runs", 1}, {"why", "no room"}}});
  CHECK(match["jobs_only_a"] == json{"gone"});
  CHECK(match["jobs"][1]["time_a_s"] == 4);
  CHECK(match["jobs"][1]["time_b_s"].is_null());
  // Refused with one seed of two: the mean is of the other.
  output::RunResult ran = other;
  ran.seed = 2;
  ran.jobs[1].state = "done";
  ran.jobs[1].refusal = "";
  ran.jobs[1].time_s = 6;
  const std::vector<output::RunResult> first = {one}, both = {other, ran};
  const sim::Comparison comparison = sim::compare(first, both);
  CHECK(comparison.matches.at(0).jobs.at(1).b.runs == 1);
  CHECK(comparison.matches[0].jobs[1].b.time_s == 6);
  CHECK(
      sim::comparison_table(comparison).find("B: job large was refused in 1 of 2 runs: no room") !=
      std::string::npos);
}

TEST_CASE("what was not measured is shown as such, not as 0") {
  const Folder folder;
  output::RunResult one = run_of("", 1, 10);
  one.aggregate.cached_bytes_most = 3000;
  output::RunResult other = run_of("", 1, 10);
  other.not_measured = {"aggregate.cached_bytes_most", "cluster.store_bytes_per_s"};
  const std::string a = file_of(folder, "a.json", {one});
  const std::string b = file_of(folder, "b.json", {other});
  const std::string table = run({"compare", a, b}).out;
  const std::string row = table.substr(table.find("kept at most"));
  CHECK(row.substr(0, row.find('\n')).find("not measured") != std::string::npos);
  CHECK(row.substr(0, row.find('\n')).find("0 B") == std::string::npos);
  const json figures = json::parse(run({"compare", a, b, "--json"}).out)["matches"][0]["figures"];
  CHECK(figures["cached_bytes_most"] == json{{"a", 3000.0}, {"b", nullptr}});
  CHECK(figures["storage_bytes"]["b"] == 0);
}

TEST_CASE("compare prints a table, or JSON") {
  const Folder folder;
  const std::string a = file_of(folder, "a.json", {run_of("x", 1, 10), run_of("x", 2, 20)});
  const std::string b = file_of(folder, "b.json", {run_of("x", 1, 12), run_of("x", 2, 22)});
  const Outcome table = run({"compare", a, b});
  CHECK(table.code == 0);
  CHECK(table.out.find("makespan") != std::string::npos);
  CHECK(table.out.find("differs") != std::string::npos);
  CHECK(table.out.find("1.133") != std::string::npos);  // 17 / 15
  const Outcome machine = run({"compare", a, b, "--json"});
  CHECK(machine.code == 0);
  const json result = json::parse(machine.out);
  const json& makespan = result["matches"][0]["figures"]["makespan_s"];
  CHECK(makespan["a"] == 15);
  CHECK(makespan["b"] == 17);
  CHECK(makespan["significant"] == true);
  CHECK(result["matches"][0]["figures"]["au"]["significant"] == false);
  CHECK(result["only_a"].empty());
}

TEST_CASE("files that are no results are refused, and what they lack is said") {
  const Folder folder;
  const std::string good = file_of(folder, "good.json", {run_of("x", 1, 10)});
  const std::string other = file_of(folder, "other.json", {run_of("y", 1, 10), run_of("z", 1, 1)});
  check_refused({"compare", good, folder.name("none.json")}, "none.json: cannot be read");
  check_refused({"compare", folder.file("text.json", "hello"), good}, "not results");
  check_refused({"compare", folder.file("list.json", "[1]"), good}, "no list of runs");
  check_refused({"compare", folder.file("runs.json", "{\"runs\": 3}"), good}, "no list of runs");
  check_refused({"compare", folder.file("c.json", "{\"command\":\"cache\",\"runs\":[]}"), good},
                "results of `cache`");
  check_refused({"compare", folder.file("e.json", "{\"command\":\"run\",\"runs\":[{}]}"), good},
                "no figures");
  check_refused({"compare", folder.file("n.json", "{\"command\":\"run\",\"runs\":[]}"), good},
                "no run");
  check_refused({"compare", good, other}, "no run in common");
  check_refused({"compare", good}, "B");
  check_refused({"compare", good, good, "--json=" + good}, "overwrite");
}

}  // namespace batchflow::test::compare_test
