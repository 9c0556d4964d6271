// Results on their way to people, programs and other processes.
#include "programs/output/results.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/config_value.h"
#include "programs/output/packed_runs.h"

namespace batchflow::test::results_test {

namespace {

output::RunResult sample() {
  output::RunResult run;
  run.label = "dispatch=fifo";
  run.scenario = "s";
  run.policies = {{"preset", "default"}, {"dispatch", "fifo"}};
  run.seed = 3;
  run.digest = "00ff";
  run.makespan_s = 1.5;
  run.aggregate.storage_bytes = UINT64_MAX;
  run.jobs.resize(2);
  run.jobs[1].name = "a, \"b\"";
  run.jobs[1].stall_s = 0.1;
  run.faults.resize(2);
  run.faults[1].struck = true;
  run.faults[1].from_s = -0.0;
  run.preparation_steps.push_back({"train", "data", "decode\n", 1. / 3});
  run.bottlenecks.push_back({"cache", 1, 2, 3, {{"a", 4, 5}}});
  run.series.resize(2);
  run.series[1].samples = 2;
  run.series[1].jobs.push_back({7, 1e-300});
  return run;
}

}  // namespace

TEST_CASE("a run is written and read back whole") {
  const output::RunResult run = sample();
  const output::RunResult back = output::decode_run(output::encode_run(run));
  CHECK(output::encode_run(back) == output::encode_run(run));
  CHECK(output::encode_run(run).find('\n') == std::string::npos);
  CHECK(back.aggregate.storage_bytes == UINT64_MAX);
  CHECK(back.policies == run.policies);
  CHECK(back.series.size() == 2);
  CHECK(back.series[1].samples == 2);
  CHECK_THROWS_AS(output::decode_run("{}"), ConfigError);
  CHECK_THROWS_AS(output::decode_run("x"), ConfigError);
  const std::string csv = output::text_of(output::jobs_csv({&run, 1}));
  CHECK(csv.find("run,seed,name,user,dataset,state") == 0);
  CHECK(csv.find("\ndispatch=fifo,3,\"a, \"\"b\"\"\",") != std::string::npos);
}

TEST_CASE("what was not measured is null in JSON, empty in CSV, and known when it is read") {
  output::RunResult run = sample();
  run.settings = {{"credits", "3"}};
  run.workload = {{"dataset rows", "8 samples of 4 bytes"}};
  run.not_measured = {"aggregate.pcie_bytes", "cluster.store_bytes_per_s", "jobs.waited"};
  const std::string text = output::text_of(output::results_json({&run, 1}, "run", "0"));
  const nlohmann::json first = nlohmann::json::parse(text)["runs"][0];
  CHECK(first["aggregate"]["pcie_bytes"].is_null());
  CHECK(first["aggregate"]["network_bytes"] == 0);
  CHECK(first["cluster"]["store_bytes_per_s"].is_null());
  CHECK(first["jobs"][0]["waited"].is_null());
  CHECK(first["jobs"][1]["waited"].is_null());
  CHECK(first["jobs"][1]["stall_s"] == 0.1);

  const output::RunResult back = output::parse_results(text, "r.json").at(0);
  CHECK(back.not_measured == run.not_measured);
  CHECK(back.settings == run.settings);
  CHECK(back.workload == run.workload);
  CHECK_FALSE(output::is_measured(back, "aggregate.pcie_bytes"));
  CHECK(output::is_measured(back, "aggregate.network_bytes"));
  CHECK(output::decode_run(output::encode_run(run)).not_measured == run.not_measured);
  CHECK(output::unpack_run(output::pack_run(run)).not_measured == run.not_measured);

  // The seven parts of a stall are the last columns; a run that measured them has zeros.
  const std::string csv = output::text_of(output::jobs_csv({&run, 1}));
  CHECK(csv.find(",,,,,,,\n") != std::string::npos);
  CHECK(csv.find(",0,0,0,0,0,0,0\n") == std::string::npos);
  const output::RunResult whole = sample();
  CHECK(output::text_of(output::jobs_csv({&whole, 1})).find(",0,0,0,0,0,0,0\n") !=
        std::string::npos);
}

TEST_CASE("a run goes through a pipe whole, and nothing else is taken for a run") {
  output::RunResult run = sample();
  const std::string text = output::pack_run(run);
  CHECK(output::encode_run(output::unpack_run(text)) == output::encode_run(run));
  CHECK(std::signbit(*output::unpack_run(text).faults[1].from_s));
  run.makespan_s = -std::numeric_limits<double>::infinity();
  CHECK(output::unpack_run(output::pack_run(run)).makespan_s == run.makespan_s);

  const output::OptionalRuns both = output::unpack_runs(output::pack_runs({std::nullopt, run}));
  REQUIRE(both.size() == 2);
  CHECK(!both[0]);
  CHECK(output::encode_run(*both[1]) == output::encode_run(run));

  for (std::size_t size = 0; size < text.size(); ++size) {
    CHECK_THROWS_AS(output::unpack_run(text.substr(0, size)), ConfigError);
  }
  CHECK_THROWS_AS(output::unpack_run(text + "x"), ConfigError);
  CHECK_THROWS_AS(output::unpack_runs(std::string(9, '\xff')), ConfigError);
}

TEST_CASE("results are laid out as a JSON library has them") {
  const output::RunResult run = sample();
  const std::string text = output::text_of(output::results_json({&run, 1}, "run", "0"));
  CHECK(text == nlohmann::ordered_json::parse(text).dump(2) + "\n");
}

TEST_CASE("results are JSON whatever is in them") {
  output::RunResult run = sample();
  run.scenario = "tab\t, quote \", \xc3\xa4, and \xff, which is no UTF-8";
  run.wall_s = std::numeric_limits<double>::quiet_NaN();
  for (const double value : {0., -0., 1., 1e15, 1e16, 123456.75, 1e-7, 5e-324, 1.7e308, -3.}) {
    run.jobs.emplace_back().time_s = value;
  }
  const std::vector<output::RunResult> runs = {run, sample()};
  const std::string more = R"({"study":{"axes":[],"none":{},"list":[1,[2.5,null],true]}})";
  const std::string text = output::text_of(output::results_json(runs, "run", "0", more));
  const auto json = nlohmann::ordered_json::parse(text);
  CHECK(json["study"] == nlohmann::ordered_json::parse(more)["study"]);
  const auto& first = json["runs"][0];
  CHECK(first["scenario"] == "tab\t, quote \", \xc3\xa4, and \xef\xbf\xbd, which is no UTF-8");
  CHECK(first["wall_s"].is_null());
  CHECK(!first.contains("series"));
  for (std::size_t i = 0; i < run.jobs.size(); ++i) {
    CHECK(first["jobs"][i]["time_s"].is_number_float());
    CHECK(first["jobs"][i]["time_s"] == run.jobs[i].time_s);
  }
}

// A tree of them would take gigabytes.
TEST_CASE("results of many jobs are never in memory as a whole") {
  output::RunResult run;
  run.jobs.resize(20'000);
  std::size_t most = 0;
  std::size_t all = 0;
  for (const output::Content& content :
       {output::results_json({&run, 1}, "run", "0"), output::jobs_csv({&run, 1})}) {
    content([&](std::string_view piece) {
      most = std::max(most, piece.size());
      all += piece.size();
    });
  }
  CHECK(all > 10'000'000);
  CHECK(most < 100'000);
  CHECK(output::pack_run(run).size() < 60 * run.jobs.size());
}

namespace {

output::JobResult done_job(const std::string& user, double arrived_s, double started_s,
                           double ended_s, double compute_s) {
  output::JobResult job;
  job.user = user;
  job.state = "done";
  job.arrived_s = arrived_s;
  job.started_s = started_s;
  job.ended_s = ended_s;
  job.time_s = ended_s - started_s;
  job.compute_s = compute_s;
  return job;
}

}  // namespace

TEST_CASE("completion times, slowdowns and both kinds of fairness are those worked out by hand") {
  const std::vector<output::JobResult> jobs = {
      done_job("ann", 0, 0, 10, 10),    // 10 s, slowdown 1
      done_job("bob", 0, 10, 30, 10),   // 30 s, slowdown 3, of which 20 s with GPUs
      done_job("bob", 0, 10, 50, 20)};  // 50 s, slowdown 2.5, of which 40 s with GPUs
  output::Aggregate sum;
  output::count_completions(jobs, sum);
  CHECK(sum.jct_s == doctest::Approx(30));
  CHECK(sum.jct_p95_s == 50);
  CHECK(sum.slowdown == doctest::Approx((1 + 3 + 2.5) / 3));
  // Speeds 1, 1/3 and 2/5.
  const double all = 1 + 1. / 3 + 0.4;
  CHECK(sum.fairness == doctest::Approx(all * all / (3 * (1 + 1. / 9 + 0.16))));
  // Users' speeds 1 and 30/60.
  CHECK(sum.user_fairness == doctest::Approx(1.5 * 1.5 / (2 * 1.25)));
  CHECK(output::user_slowdowns(jobs) == std::vector<double>{1, 2});
  // After 20 s two jobs end.
  output::count_completions(jobs, sum, 20);
  CHECK(sum.jct_s == doctest::Approx(40));
  const std::vector<double> none;
  CHECK(output::jain_index(none) == 1);
  CHECK(output::jain_index(std::vector<double>{5, 0, 0, 0}) == doctest::Approx(0.25));
  CHECK(output::quantile(std::vector<double>{1, 2, 3, 4}, 0.5) == 2);
}

}  // namespace batchflow::test::results_test
