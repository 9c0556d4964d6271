// Cuts of real traces, where they are available (BATCHFLOW_SHARED, or ../shared beside the
// repository): the counts that their publishers wrote down or that other tools find.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "core/base/config_value.h"
#include "tests/skip.h"
#include "tests/source_dir.h"
#include "traces/job_statistics.h"
#include "traces/node_faults.h"

namespace batchflow::test::shared_traces_test {

namespace {

struct Cut {
  const char* path;
  const char* format;
  std::uint64_t jobs, gpu_jobs, users, starts, durations;
  traces::TimeBase base;
  traces::Problem problem;  // of its rows
  std::uint64_t rows_with_it;
};

// Counted with awk over the files.
constexpr Cut kCuts[] = {
    {"philly-pollux/philly.csv", "philly-csv", 34684, 34684, 0, 0, 34684, traces::TimeBase::local,
     traces::Problem::not_sorted, 34675},
    {"philly-gpw/philly_data_training.csv", "intervals", 9000, 9000, 118, 0, 9000,
     traces::TimeBase::relative, traces::Problem::not_sorted, 0},
    {"helios-gpw/helios_data_training.csv", "intervals", 9000, 6324, 89, 0, 9000,
     traces::TimeBase::relative, traces::Problem::not_sorted, 0},
    {"alibaba-gpu-v2023/openb_pod_list_default.csv", "openb", 4486, 3819, 0, 4080, 4080,
     traces::TimeBase::relative, traces::Problem::never_started, 406},
    {"alibaba-gpu-v2023/openb_pod_list_gpuspec33.csv", "openb", 4486, 3819, 0, 4080, 4080,
     traces::TimeBase::relative, traces::Problem::never_started, 406},
    {"elasticflow-itp/cluster01.csv", "itp", 73, 73, 0, 0, 73, traces::TimeBase::relative,
     traces::Problem::not_sorted, 0},
    {"elasticflow-itp/cluster10.csv", "itp", 0, 0, 0, 0, 0, traces::TimeBase::relative,
     traces::Problem::not_sorted, 0},
    {"mit-supercloud-sample/slurm-log-queueing-clean.csv", "supercloud", 2685, 1083, 177, 2685,
     2685, traces::TimeBase::utc, traces::Problem::not_sorted, 0}};

std::filesystem::path shared_traces() {
  const char* shared = std::getenv("BATCHFLOW_SHARED");
  const std::filesystem::path folder =
      shared != nullptr ? std::filesystem::path(shared) : source_dir() / ".." / "shared";
  return folder / "traces";
}

}  // namespace

TEST_CASE("cuts of real traces are read whole") {
  if (!std::filesystem::exists(shared_traces())) {
    return test::skipped("no folder of real traces beside the repository");
  }
  for (const Cut& cut : kCuts) {
    CAPTURE(cut.path);
    const traces::JobTrace trace = traces::read_job_trace((shared_traces() / cut.path).string());
    const traces::JobStatistics s = traces::job_statistics(trace);
    CHECK(trace.format == cut.format);
    CHECK(trace.time_base == cut.base);
    CHECK(trace.rows == cut.jobs);
    CHECK(s.jobs == cut.jobs);
    CHECK(s.gpu_jobs == cut.gpu_jobs);
    CHECK(s.users == cut.users);
    CHECK(s.jobs_with_start == cut.starts);
    CHECK(s.jobs_with_duration == cut.durations);
    for (std::size_t i = 0; i < traces::kProblems; ++i) {
      const bool expected = static_cast<traces::Problem>(i) == cut.problem;
      CHECK(trace.problems[i].rows == (expected ? cut.rows_with_it : 0));
    }
  }
}

TEST_CASE("real files without jobs are distinguished from job logs") {
  if (!std::filesystem::exists(shared_traces())) {
    return test::skipped("no folder of real traces beside the repository");
  }
  for (const char* path :
       {"alibaba-gpu-v2023/openb_node_list_all_node.csv", "alibaba-pai-v2020/job_1_norm.csv",
        "alibaba-pai-v2020/pai_machine_spec.tar.gz", "philly-pollux/cluster_machine_list",
        "helios-aux/Venus_cluster_throughput.csv", "helios-aux/Earth_gpu_number.csv"}) {
    CAPTURE(path);
    CHECK_THROWS_AS(traces::read_job_trace((shared_traces() / path).string()), ConfigError);
  }
}

// Counted with Python over the file.
TEST_CASE("the faults of a real cluster are read whole") {
  const std::filesystem::path path = shared_traces() / "infinitehbd-faults" / "fault_trace.json";
  if (!std::filesystem::exists(path)) {
    return test::skipped("no folder of real traces beside the repository");
  }
  const traces::NodeFaults trace = traces::read_node_faults(path.string());
  CHECK(trace.events == 730);
  CHECK(trace.faults.size() == 371);
  CHECK(trace.nodes.size() == 181);
  CHECK(trace.without_start == 0);
  const std::vector<traces::FaultClass> classes = traces::fault_classes(trace);
  CHECK(classes.size() == 13);
  std::uint64_t unended = 0;
  for (const traces::FaultClass& one : classes) {
    unended += one.unended;
    if (one.kind == "GPU") CHECK(one.faults == 82);
  }
  CHECK(unended == 12);
}

}  // namespace batchflow::test::shared_traces_test
