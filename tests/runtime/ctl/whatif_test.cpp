// The coming hours of a service, from an answer that is made up; and what is remembered.
#include "runtime/ctl/whatif.h"

#include <algorithm>
#include <fstream>

#include "core/base/config_value.h"
#include "doctest/doctest.h"
#include "tests/runtime/sources/dataset_files.h"

namespace batchflow::test::whatif_ctl_test {

using nlohmann::json;

namespace {

json status() {
  return {{"seed", 7},
          {"preset", "independent"},
          {"policies", {{"dispatch", "fifo"}}},
          {"settings", {{"count_staging", "true"}, {"staging_bytes", "1000"}}},
          {"workers_most", 3},
          {"planned_bytes", 50000},
          {"prepared_samples", 1000},
          {"preparing_s", 4.0},
          {"device_reads", 1000},
          {"storage_busy_s", 1.0},
          {"reads_s", 2.0},
          {"read_bytes", 5e6},
          {"datasets", {{{"name", "d"}, {"samples", 1000}, {"bytes", 5'000'000}}}},
          {"jobs",
           {{{"name", "train"},
             {"user", 5},
             {"dataset", "d"},
             {"pipeline", "p"},
             {"batch_samples", 10},
             {"ranks", 1},
             {"running", true},
             {"left", false},
             {"samples", 500},
             {"wait_s", 5.0},
             {"compute_s", 10.0},
             {"model",
              {{"order", "relaxed"},
               {"credits", 3},
               {"weight", 1.0},
               {"steps_to_go", 150},
               {"consumed_batches", 50},
               {"compute_squares_s2", 2.5},
               {"decoded_bytes", 0},
               {"prepared_bytes", 2000},
               {"decode_s", 0.0},
               {"augment_s", 0.001}}}}}}};
}

}  // namespace

TEST_CASE("jobs go on from where they are, with the times that they had") {
  const ctl::ComingHours coming = ctl::coming_hours(status(), 1);
  const input::ObservedWorkload& workload = coming.workload;
  REQUIRE(workload.jobs.size() == 1);
  const input::ObservedJob& job = workload.jobs[0];
  CHECK(job.step_s == doctest::Approx(0.2));       // 10 s of 50 batches
  CHECK(job.step_jitter == doctest::Approx(0.5));  // of squares 0.05 and 0.04
  CHECK(coming.warm_s == doctest::Approx(30));     // 100 steps of 0.2 s, and 0.1 s of waiting
  CHECK(job.steps == 100 + 150);
  CHECK(workload.ends_after == std::chrono::seconds(3630));
  CHECK(workload.nodes[0].cores == 3);
  CHECK(workload.nodes[0].cache == 51000);
  CHECK(workload.pipelines[0].augment_s == doctest::Approx(0.004));  // as measured
  REQUIRE(workload.store);
  CHECK(workload.store->latency_s == doctest::Approx(0.002));
  CHECK(workload.store->bytes_per_s == doctest::Approx(5e6));
  const std::string text = input::derive_scenario(workload, nullptr).text;
  CHECK(text.find("steps: 250") != std::string::npos);
  CHECK(text.find("preset: \"independent\"") != std::string::npos);
}

TEST_CASE(
    "what a job rehearses goes on, with no more exemplars than samples; of a mixture it cannot") {
  const auto derived = [](const char* order) {
    json one = status();
    json& model = one["jobs"][0]["model"];
    model["order"] = order;
    model["rehearsed"] = 2;
    model["exemplars"] = 2000;  // what the buffer has room for
    return input::derive_scenario(ctl::coming_hours(one, 1).workload, nullptr);
  };
  CHECK(derived("relaxed").text.find("rehearsal: {samples: 2, exemplars: 1000}") !=
        std::string::npos);
  const auto mixed = derived("mixed");
  CHECK(mixed.text.find("rehearsal") == std::string::npos);
  CHECK(std::count(mixed.assumed.begin(), mixed.assumed.end(),
                   "what job train rehearses is left out") == 1);
}

TEST_CASE("a store is called one, whatever it asks; a job that reads a feed is another") {
  const auto assumed = [](bool keyed) {
    json one = status();
    one["jobs"][0]["model"]["order"] = "live";
    one["jobs"][0]["model"]["keyed"] = keyed;
    return input::derive_scenario(ctl::coming_hours(one, 1).workload, nullptr).assumed;
  };
  const auto counts = [](const std::vector<std::string>& all, const char* text) {
    return std::count(all.begin(), all.end(), text);
  };
  const char* const store =
      "job train is a store, and asks for samples by their keys, which no scenario has; it is "
      "taken as sequential";
  const char* const feed =
      "job train reads a feed, which no scenario has; it is taken as sequential";
  CHECK(counts(assumed(true), store) == 1);
  CHECK(counts(assumed(true), feed) == 0);
  CHECK(counts(assumed(false), feed) == 1);
}

TEST_CASE("without jobs, or of an older service, nothing is foretold") {
  json none = status();
  none["jobs"] = json::array();
  CHECK_THROWS_WITH_AS(ctl::coming_hours(none, 1), "no job runs, so nothing can be foretold",
                       ConfigError);
  json older = status();
  older["jobs"][0].erase("model");
  CHECK_THROWS_AS(ctl::coming_hours(older, 1), ConfigError);
}

TEST_CASE("candidates are what a live service can change to, but what runs") {
  const auto names = ctl::usual_candidates("default");
  CHECK(std::find(names.begin(), names.end(), "default") == names.end());
  CHECK(std::find(names.begin(), names.end(), "coordl") != names.end());
}

TEST_CASE("what was applied is read again, also behind a line that is torn") {
  const Folder folder;
  const std::filesystem::path file = folder / "whatif.jsonl";
  CHECK(ctl::read_applied(file).all.empty());
  ctl::append_applied(file, {{"label", "a"}});
  std::ofstream(file, std::ios::app) << "{\"label\": \n";
  ctl::append_applied(file, {{"label", "b"}});
  const ctl::Applied applied = ctl::read_applied(file);
  REQUIRE(applied.all.size() == 2);
  CHECK(applied.all[1]["label"] == "b");
  CHECK(applied.unreadable == 1);
}

TEST_CASE("live figures are of the time between two answers") {
  const json before = {{"up_s", 10}, {"samples", 100}, {"wait_s", 1}, {"compute_s", 9}};
  const json now = {{"up_s", 20}, {"samples", 600}, {"wait_s", 4}, {"compute_s", 18}};
  const ctl::LiveFigures figures = ctl::live_figures(before, now);
  CHECK(figures.samples_per_s == doctest::Approx(50));
  CHECK(figures.stall_fraction == doctest::Approx(0.25));
}

}  // namespace batchflow::test::whatif_ctl_test
