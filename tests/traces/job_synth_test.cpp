// Made traces: the same seed gives the same jobs, and the jobs have the statistics of their model.
#include "traces/job_synth.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "core/base/config_value.h"
#include "traces/job_statistics.h"
#include "traces/job_trace.h"

namespace batchflow::test::job_synth_test {

namespace {

constexpr std::int64_t kDayNs = 86'400 * traces::kNanosPerSecond;

double share_of(const traces::JobStatistics& statistics, double gpus) {
  for (const traces::GpuClass& one : statistics.gpu_classes) {
    if (one.most == gpus) {
      return static_cast<double>(one.jobs) / static_cast<double>(statistics.jobs);
    }
  }
  return 0;
}

double status_share(const traces::JobStatistics& s, traces::JobStatus status) {
  return static_cast<double>(s.statuses[static_cast<std::size_t>(status)]) /
         static_cast<double>(s.jobs);
}

// How many GPUs are in use, at most, at any start.
bool fits(const traces::JobTrace& trace, double gpus) {
  return traces::job_statistics(trace).gpus_at_once_most <= gpus;
}

}  // namespace

TEST_CASE("the same seed makes the same bytes, another seed others") {
  traces::SynthOptions options;
  options.jobs = 2000;
  const std::string first =
      traces::job_csv(traces::synthesize_jobs(traces::usual_job_model(), options));
  CHECK(traces::job_csv(traces::synthesize_jobs(traces::usual_job_model(), options)) == first);
  options.seed = 2;
  CHECK(traces::job_csv(traces::synthesize_jobs(traces::usual_job_model(), options)) != first);
  CHECK(traces::job_csv(traces::open_job_trace("gen:cluster,jobs=2000")) == first);
  CHECK(traces::job_csv(traces::open_job_trace("gen:cluster?jobs=2000&seed=2")) != first);
  CHECK_THROWS_AS(traces::open_job_trace("gen:perm"), ConfigError);
  CHECK_THROWS_AS(traces::open_job_trace("gen:cluster,job=2"), ConfigError);
}

TEST_CASE("the bundled default has its size, and the statistics of its model") {
  const traces::JobTrace trace = traces::open_job_trace("gen:cluster");
  const traces::JobStatistics s = traces::job_statistics(trace);
  CHECK(s.jobs == 100'000);
  CHECK(s.jobs_with_start == s.jobs);
  CHECK(s.distinct_ids == s.jobs);
  CHECK(s.users == 300);
  CHECK(s.queues == 14);
  CHECK(s.gpus_at_once_most <= 2490);
  CHECK(s.last_submit_ns - s.first_submit_ns < 75 * kDayNs);
  CHECK(s.last_submit_ns - s.first_submit_ns > 74 * kDayNs);
  // Within five standard deviations of a share of 100,000 draws.
  const auto near = [](double is, double wanted) {
    return std::abs(is - wanted) < 5 * std::sqrt(wanted * (1 - wanted) / 100'000);
  };
  CHECK(near(share_of(s, 1), .858));
  CHECK(near(share_of(s, 2), .043));
  CHECK(near(share_of(s, 8), .047));
  CHECK(near(status_share(s, traces::JobStatus::completed), .69));
  CHECK(near(status_share(s, traces::JobStatus::failed), .17));
  double users = 0;
  for (int k = 1; k <= 300; ++k) users += std::pow(k, -1.05);
  CHECK(near(s.jobs_of_busiest_user_share, 1 / users));
  // Half to two thirds of what 2,490 GPUs have in 75 days.
  CHECK(s.gpu_hours > .5 * 2490 * 75 * 24);
  CHECK(s.gpu_hours < .67 * 2490 * 75 * 24);
}

TEST_CASE("arrivals follow the day and the week") {
  const traces::JobTrace trace = traces::open_job_trace("gen:cluster,days=70");
  std::map<std::int64_t, double> hours, days;
  for (const traces::JobRecord& job : trace.jobs) {
    const std::int64_t seconds = job.submit_ns / traces::kNanosPerSecond;
    ++hours[seconds / 3600 % 24];
    ++days[(seconds / 86'400 + 3) % 7];  // 1970 began on a Thursday
  }
  // The weights are 1.45 and 0.55 of an hour's mean, and 1.15 and 0.65 of a day.
  CHECK(hours[16] / hours[4] == doctest::Approx(1.45 / .55).epsilon(.06));
  CHECK(days[2] / days[6] == doctest::Approx(1.15 / .65).epsilon(.06));
}

TEST_CASE("jobs start first come, first served, on the GPUs there are") {
  for (const char* name :
       {"gen:cluster,jobs=20000,days=5,gpus=300", "gen:cluster,gpus=1,jobs=50"}) {
    const traces::JobTrace trace = traces::open_job_trace(name);
    traces::TraceTime before = INT64_MIN;
    bool any_waits = false;
    for (const traces::JobRecord& job : trace.jobs) {
      REQUIRE(job.start_ns >= job.submit_ns);
      REQUIRE(job.start_ns >= before);
      before = job.start_ns;
      any_waits = any_waits || job.start_ns > job.submit_ns;
    }
    CHECK(any_waits);
    CHECK(fits(trace, trace.name.find("gpus=1,") != std::string::npos ? 1 : 300));
  }
  traces::SynthModel large = traces::usual_job_model();
  large.sizes = {{800, 1.0}};
  traces::SynthOptions small;
  small.gpus = 7;
  CHECK_THROWS_AS(traces::synthesize_jobs(large, small), ConfigError);
}

TEST_CASE("a model that is fitted to a made trace is the model that made it") {
  traces::SynthOptions options;
  options.gpus = 100'000;  // no job waits, so durations are not cut
  const traces::SynthModel model = traces::usual_job_model();
  const traces::SynthModel fitted = traces::fit_job_model(traces::synthesize_jobs(model, options));
  for (std::size_t i : {1u, 3u}) {  // the classes of many jobs
    std::array<traces::Lognormal, 2> found = fitted.durations[i];
    if (found[0].mean_log > found[1].mean_log) std::swap(found[0], found[1]);
    for (std::size_t part = 0; part < 2; ++part) {
      CAPTURE(i);
      CAPTURE(part);
      CHECK(found[part].weight == doctest::Approx(model.durations[i][part].weight).epsilon(.1));
      CHECK(std::abs(found[part].mean_log - model.durations[i][part].mean_log) < .3);
      CHECK(std::abs(found[part].sd_log - model.durations[i][part].sd_log) < .2);
    }
  }
  CHECK(fitted.users == 300);
  CHECK(fitted.user_exponent == doctest::Approx(model.user_exponent).epsilon(.02));
  CHECK(fitted.queues == 14);
  CHECK(fitted.sizes.size() == model.sizes.size());
  double weights = 0;
  for (double weight : model.weekdays) weights += weight;
  double fitted_weights = 0;
  for (double weight : fitted.weekdays) fitted_weights += weight;
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(fitted.weekdays[i] / fitted_weights ==
          doctest::Approx(model.weekdays[i] / weights).epsilon(.05));
  }
  traces::JobTrace open;
  open.jobs.emplace_back().submit_ns = 0;
  CHECK_THROWS_AS(traces::fit_job_model(open), ConfigError);
}

}  // namespace batchflow::test::job_synth_test
