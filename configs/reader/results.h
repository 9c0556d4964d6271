// What came of a run, and how it is written: JSON for programs, jobs.csv for spreadsheets.
//
// Filled by whoever ran the jobs, the simulator or the runtime; units stand in the names. Fields
// that a reader may look for by name are listed once, in results.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace batchflow {

struct JobResult {
  std::string name;
  std::string user;
  std::string dataset;
  std::string state = "unfinished";  // done, left, refused, unfinished
  std::string refusal;               // why, if it was
  std::uint64_t ranks = 0;
  std::uint64_t epochs = 0;   // finished
  std::uint64_t batches = 0;  // of all ranks, trained on
  std::uint64_t samples = 0;  // of these, fillers excluded
  std::uint64_t fillers = 0;
  double arrived_s = 0;
  double started_s = 0;  // when it got its GPUs
  double ended_s = 0;
  double time_s = 0;         // from start to end
  double compute_s = 0;      // of which its GPUs computed, in the mean of its ranks
  double stall_s = 0;        // waited for a batch
  double idle_s = 0;         // waited for the slowest rank
  double first_batch_s = 0;  // from start to the first batch
  double first_step_s = 0;   // from start to the end of the first step
  double samples_per_s = 0;
  double au = 0;  // compute time / time, the first step excluded
};

// Over all jobs of a run.
struct Aggregate {
  double samples_per_s = 0;
  double stall_fraction = 0;  // of the time of all ranks
  double au = 0;
  double hit_ratio =
      0;  // of the samples that preparations asked for, those not read from the store
  std::uint64_t samples = 0;
  std::uint64_t samples_requested = 0;  // by preparations
  std::uint64_t samples_read = 0;       // from the store
  std::uint64_t storage_bytes = 0;
  std::uint64_t storage_reads = 0;  // orders
  std::uint64_t nvme_bytes = 0;
  std::uint64_t network_bytes = 0;  // between nodes, and from the store where it has links
  std::uint64_t pcie_bytes = 0;
  std::uint64_t preparations = 0;  // samples prepared
  std::uint64_t prepared_blocks = 0;
  std::uint64_t remade_blocks = 0;
  std::uint64_t repeats = 0;
  double preparation_s = 0;  // core time
};

// Sums from the start of the run to a point in time: what reports draw.
struct SeriesPoint {
  double time_s = 0;
  std::uint64_t samples = 0;
  std::uint64_t samples_requested = 0;
  std::uint64_t samples_read = 0;
  std::uint64_t storage_bytes = 0;
  std::uint64_t nvme_bytes = 0;
  std::uint64_t network_bytes = 0;
  std::uint64_t pcie_bytes = 0;
  std::uint64_t preparations = 0;
  double preparation_s = 0;
  double compute_s = 0;  // of all ranks, as the two below
  double stall_s = 0;
  double idle_s = 0;
};

struct RunResult {
  std::string label;  // what tells it from the others of a comparison
  std::string scenario;
  std::vector<std::pair<std::string, std::string>> policies;  // kind, policy
  std::uint64_t seed = 0;
  std::string digest;  // of all commands
  bool interrupted = false;
  std::string failure;  // why nothing came of it
  double makespan_s = 0;
  double wall_s = 0;        // that the simulation took
  std::uint64_t steps = 0;  // of the engine
  std::uint64_t stale_completions = 0;
  std::uint64_t protocol_errors = 0;
  std::uint64_t refused_proposals = 0;
  Aggregate aggregate;
  std::vector<JobResult> jobs;
  std::vector<SeriesPoint> series;  // evenly apart; not written to results
};

// An object with `command`, `version` and `runs`.
std::string results_json(std::span<const RunResult> runs, const std::string& command,
                         const std::string& version);
// One row a job; the first two columns name the run and its seed.
std::string jobs_csv(std::span<const RunResult> runs);

// One run, its series too, on its way from the process that simulated it.
std::string encode_run(const RunResult& run);
// Throws ConfigError for what is no run.
RunResult decode_run(const std::string& text);

}  // namespace batchflow
