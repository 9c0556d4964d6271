// Readers of job logs over damaged input: an error in one line that names the file, or a trace that
// is sound; never a crash, nor more time and memory than the input can ask for.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/base/config_value.h"
#include "core/base/random.h"
#include "tests/policies/random_seeds.h"
#include "tests/traces/damage.h"
#include "tests/traces/job_fixtures.h"
#include "tests/traces/trace_files.h"
#include "traces/formats/format.h"
#include "traces/job_statistics.h"
#include "traces/job_trace.h"

namespace batchflow::test::job_fuzz_test {

namespace {

bool in_bounds(std::int64_t ns) {
  return ns == traces::kNoTime || (ns >= -traces::kMostTime && ns <= traces::kMostTime);
}

void check_sound(const traces::JobTrace& trace) {
  CHECK(trace.rows == trace.jobs.size() + trace.rows_without_job());
  traces::TraceTime before = -traces::kMostTime;
  for (const traces::JobRecord& job : trace.jobs) {
    REQUIRE(job.submit_ns >= before);
    before = job.submit_ns;
    REQUIRE(in_bounds(job.start_ns));
    REQUIRE((!job.has_start() || job.start_ns >= job.submit_ns));
    REQUIRE((!job.has_duration() || job.duration_ns >= 0));
    REQUIRE(job.attempts > 0);
  }
  const traces::JobStatistics statistics = traces::job_statistics(trace);
  CHECK(statistics.jobs == trace.jobs.size());
}

void read_damaged(std::uint64_t seed) {
  static const std::vector<JobFixture> fixtures = job_fixtures();
  File file;
  Random random(seed);
  const JobFixture& fixture = fixtures[random.below(fixtures.size())];
  std::string bytes = damaged(fixture.text, random);
  switch (random.below(
      6)) {  // now and then the damaged text is compressed, or the compressed text damaged
    case 0:
      bytes = gzip(bytes);
      break;
    case 1:
      bytes = damaged(random.below(2) == 0 ? gzip(fixture.text) : zstd(fixture.text), random);
      break;
    default:
      break;
  }
  const std::string path = file.with(bytes);
  traces::JobReadOptions options;
  options.corrupt_limit = random.below(2) == 0 ? 1.0 : 0.01;
  if (random.below(3) > 0) options.format = fixture.format;
  try {
    const traces::JobTrace trace = traces::read_job_trace(path, options);
    check_sound(trace);
    // What was read can be written, and is read again unchanged.
    const std::string csv = traces::job_csv(trace);
    CHECK(traces::job_csv(traces::read_job_trace(file.with(csv))) == csv);
  } catch (const ConfigError& error) {
    const std::string what = error.what();
    CAPTURE(what);
    CHECK(what.find(path) != std::string::npos);
    CHECK(what.size() < path.size() + 500);
  }
}

}  // namespace

TEST_CASE("the job logs that are damaged below are sound") {
  File file;
  for (const JobFixture& fixture : job_fixtures()) {
    check_sound(traces::read_job_trace(file.with(fixture.text)));
  }
}

TEST_CASE("damaged job logs are errors, or other logs") {
  for_seeds("test_traces", "damaged job logs*", 2000, read_damaged);
}

TEST_SUITE("long") {
  TEST_CASE("job logs with any damage, many seeds") {
    for_seeds("test_traces", "damaged job logs*", 200000, read_damaged);
  }
}

}  // namespace batchflow::test::job_fuzz_test
