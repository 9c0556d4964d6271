// What Prometheus is told, of a snapshot that is written by hand.
#include "doctest/doctest.h"
#include "runtime/service/http/snapshot.h"
#include "runtime/service/jobs/users.h"

namespace batchflow::test::metrics_test {
namespace {

using std::chrono::milliseconds;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Waits of 0, 1, 1.001, 20 and 400000 ms.
service::WaitHistogram five_waits() {
  service::WaitHistogram waits;
  for (const Duration wait :
       {Duration(0), Duration(milliseconds(1)), Duration(std::chrono::microseconds(1001)),
        Duration(milliseconds(20)), Duration(milliseconds(400'000))})
    waits.add(wait);
  return waits;
}

service::Snapshot with_a_job() {
  service::Snapshot all;
  all.waits = five_waits();
  service::Jobs::Status job;
  job.name = "train";
  job.dataset = "rows";
  job.waits_for_batches.add(milliseconds(3));
  all.jobs.push_back(job);
  return all;
}

}  // namespace

TEST_CASE("waits are a histogram: cumulative buckets in seconds, their sum and count") {
  const std::string text = service::metrics_text(with_a_job());
  CHECK(has(text, "# TYPE batchflow_wait_seconds histogram\n"));
  // A bound belongs to its bucket.
  CHECK(has(text,
            "\nbatchflow_wait_seconds_bucket{le=\"0.001\"} 2\n"
            "batchflow_wait_seconds_bucket{le=\"0.005\"} 3\n"
            "batchflow_wait_seconds_bucket{le=\"0.02\"} 4\n"
            "batchflow_wait_seconds_bucket{le=\"0.1\"} 4\n"
            "batchflow_wait_seconds_bucket{le=\"0.5\"} 4\n"
            "batchflow_wait_seconds_bucket{le=\"2\"} 4\n"
            "batchflow_wait_seconds_bucket{le=\"10\"} 4\n"
            "batchflow_wait_seconds_bucket{le=\"60\"} 4\n"
            "batchflow_wait_seconds_bucket{le=\"300\"} 4\n"
            "batchflow_wait_seconds_bucket{le=\"+Inf\"} 5\n"
            "batchflow_wait_seconds_sum 400.022001\n"
            "batchflow_wait_seconds_count 5\n"));
  CHECK(
      has(text,
          "\nbatchflow_job_wait_seconds_bucket{job=\"train\",dataset=\"rows\",le=\"0.005\"} 1\n"));
  CHECK(has(text, "\nbatchflow_job_wait_seconds_count{job=\"train\",dataset=\"rows\"} 1\n"));
}

TEST_CASE("a job's user is a label where the operator allows it, and nowhere else") {
  service::Snapshot all = with_a_job();
  CHECK(!has(service::metrics_text(all), "user="));
  all.user_labels = true;
  const std::string text = service::metrics_text(all);
  const std::string labels = "job=\"train\",dataset=\"rows\",user=\"" + service::user_name(0) + '"';
  CHECK(has(text, "batchflow_job_samples_total{" + labels + "} 0\n"));
  CHECK(has(text, "batchflow_job_stage_stall_seconds_total{" + labels + ",stage=\"room\"} 0\n"));
  CHECK(has(text, "batchflow_job_wait_seconds_sum{" + labels + "} 0.003\n"));
}

}  // namespace batchflow::test::metrics_test
