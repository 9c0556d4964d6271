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
  CHECK(match.jobs[0].time_b_s == doctest::Approx(8.5));
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
