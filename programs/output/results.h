// The results of a run, and how they are written: JSON for programs, jobs.csv for spreadsheets.
//
// The simulator or the runtime fills them. Units are in the names, and the names are those of the
// JSON and of the columns. result_fields.h lists them once more.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "programs/output/output.h"

namespace batchflow::output {

// What ranks waited for when they waited for batches. The cause at each moment of a wait is what
// was under way for the late batch then.
struct Waits {
  double storage_s = 0;      // a read from the store
  double drive_s = 0;        // a read from a drive of a node
  double network_s = 0;      // bytes on links between machines
  double cores_s = 0;        // all preparation workers were busy
  double preparation_s = 0;  // a worker prepared it
  double delivery_s = 0;     // gathered, and copied to the GPU
  double other_s = 0;        // no command yet, although a worker was free: memory, or a policy
};

// Bytes kept at a point in time, by form and tier.
struct CachedBytes {
  std::uint64_t encoded_dram = 0;
  std::uint64_t decoded_dram = 0;
  std::uint64_t prepared_dram = 0;  // blocks, and batches on their way
  std::uint64_t encoded_nvme = 0;
  std::uint64_t decoded_nvme = 0;
  std::uint64_t decoded_gpu = 0;
};

// The capacities of the cluster; a rate of 0 is no limit.
struct ClusterSizes {
  std::uint64_t nodes = 0;
  std::uint64_t gpus = 0;
  std::uint64_t cores = 0;
  std::uint64_t cache_bytes = 0;  // of memory
  std::uint64_t nvme_bytes = 0;
  std::uint64_t gpu_cache_bytes = 0;  // of the memory of all GPUs
  double store_bytes_per_s = 0;    // at its best number of readers; no more than its link carries
  double network_bytes_per_s = 0;  // of the network cards of all nodes, one way
  double pcie_bytes_per_s = 0;     // of all nodes
};

// What is in a buffer that the engine fills, at the end of its job. Classes are the sources of the
// job's mixture.
struct BufferResult {
  std::uint64_t exemplars = 0;
  std::uint64_t classes = 0;  // that have any
  std::uint64_t class_least = 0;
  std::uint64_t class_most = 0;
  // How many samples ago they came, as a part of all that the buffer was shown: 0 for the last
  // ones, 0.5 for a uniform choice of samples that come once.
  double age = 0;
};

// Figures of a job that reads a source while the source grows. Records that fill its steps count as
// rehearsed; its buffer has the records that may fill them.
struct LiveResult {
  // From where a record is made until a rank trains on it.
  double lag_mean_s = 0;
  double lag_p50_s = 0;
  double lag_p99_s = 0;
  double fill_age_s = 0;  // of records that fill steps: how long ago they were made, mean
};

// A mixture with weights that go by losses, at the end of its job.
struct MixtureResult {
  std::uint64_t changes = 0;  // of the weights
  double weight_least = 0;    // of a source, as a part of the mixture
  double weight_most = 0;
  double loss_mean = 0;  // over its sources
  double loss_most = 0;
};

struct JobResult {
  std::string name;
  std::string user;
  std::string dataset;
  std::string state = "unfinished";  // done, left, refused, unfinished
  std::string refusal;               // why, if it was refused
  std::uint64_t ranks = 0;
  std::uint64_t epochs = 0;   // finished
  std::uint64_t batches = 0;  // of all ranks, trained on
  std::uint64_t samples = 0;  // of these, without fillers and rehearsed samples
  std::uint64_t fillers = 0;
  std::uint64_t rehearsed = 0;     // drawn from the job's buffer
  std::uint64_t restarts = 0;      // after the loss of a node
  std::uint64_t preemptions = 0;   // its GPUs were given to another
  std::uint64_t lost_samples = 0;  // trained on in steps that were never completed
  // Of steps that it took again, from its last checkpoint on; not among `samples` and `batches`.
  std::uint64_t repeated_samples = 0;
  double arrived_s = 0;
  double started_s = 0;  // when it got its GPUs
  double ended_s = 0;
  double time_s = 0;     // from start to end
  double compute_s = 0;  // in which its GPUs computed, mean over its ranks
  double stall_s = 0;    // waited for a batch
  double idle_s = 0;     // waited for the slowest rank
  double down_s = 0;     // waited for a lost node to come back, or for GPUs that it had to leave
  double first_batch_s = 0;  // from start to the first batch
  double first_step_s = 0;   // from start to the end of the first step
  double samples_per_s = 0;
  double au = 0;  // compute time / time, without the first step if there are more
  BufferResult buffer;
  LiveResult live;
  MixtureResult mixture;
  std::string bottleneck;  // what bounds it: `gpu`, `ranks` (the slowest), or the greatest of:
  Waits waited;            // the parts of stall_s
};

// Over all jobs of a run.
struct Aggregate {
  double samples_per_s = 0;
  double stall_fraction = 0;  // of the time of all ranks
  double au = 0;
  // The share of the samples that preparations asked for and that were not read from the store.
  double hit_ratio = 0;
  // At any moment, in all forms, in the memory, on the drives and on the GPUs of all nodes.
  std::uint64_t cached_bytes_most = 0;
  std::uint64_t samples = 0;
  std::uint64_t samples_requested = 0;  // by preparations and lists
  std::uint64_t samples_read = 0;       // from the store
  std::uint64_t storage_bytes = 0;
  std::uint64_t storage_reads = 0;   // commands
  std::uint64_t store_requests = 0;  // operations, with those that are sent again
  std::uint64_t requests_again = 0;
  double requests_price = 0;
  std::uint64_t store_written_bytes = 0;   // checkpoints
  std::uint64_t store_restored_bytes = 0;  // checkpoints, read back
  std::uint64_t nvme_bytes = 0;            // read
  std::uint64_t nvme_written_bytes = 0;
  std::uint64_t gpu_read_bytes = 0;  // of samples kept in the memory of GPUs
  std::uint64_t gpu_written_bytes = 0;
  std::uint64_t network_bytes = 0;  // between nodes, and from the store where it has links
  std::uint64_t pcie_bytes = 0;     // to GPUs and from them
  std::uint64_t preparations = 0;   // samples prepared
  std::uint64_t prepared_blocks = 0;
  std::uint64_t remade_blocks = 0;
  std::uint64_t repeats = 0;
  double preparation_s = 0;  // core time
  // What faults cost beside the figures above.
  std::uint64_t cancelled_read_bytes = 0;  // of reads that came to nothing
  double cancelled_preparation_s = 0;      // core time of preparations that came to nothing
  std::uint64_t failed_reads = 0;          // commands
  std::uint64_t replaced_samples = 0;      // found to be corrupt, by dataset and id
  std::uint64_t lost_samples = 0;
  std::uint64_t repeated_samples = 0;
  // Of the jobs that were done: the time from arrival to end, its mean and its 95th percentile; its
  // ratio to the time that their GPUs computed; and Jain's index of their speeds, each over its
  // speed without waiting.
  double jct_s = 0;
  double jct_p95_s = 0;
  double slowdown = 0;
  double fairness = 1;
  double user_fairness = 1;  // Jain's index of users' speeds while they have GPUs: user_slowdowns()
  // The price of the cluster for as long as the run took, and of 10^6 samples; not measured where
  // the cluster names no prices.
  double cost = 0;
  double cost_per_million_samples = 0;
  // Where sources grow. Of all samples that live jobs trained on, the part that filled a step; of
  // all records that were made, the part that was left out for want of room; and the times from
  // where a record is made until a job trains on it, of the job with the longest ones.
  double fill_ratio = 0;
  double thinned_ratio = 0;
  double lag_p50_s = 0;
  double lag_p99_s = 0;
  // Where jobs have buffers, means over these: how many classes have an exemplar, the rarest of
  // them over the most frequent, and how old exemplars are (BufferResult::age).
  double buffer_classes = 0;
  double buffer_evenness = 0;
  double buffer_age = 0;
};

// Core time of one step of a pipeline, over all samples of a dataset that went through it.
struct StepResult {
  std::string pipeline;
  std::string dataset;
  std::string step;
  double core_s = 0;
};

// What became of the records of a source that grows.
struct SourceResult {
  std::string dataset;
  std::uint64_t made = 0;          // all others that are counted here, together
  std::uint64_t lost = 0;          // on their way to the log
  std::uint64_t late = 0;          // left out, since newer ones had come
  std::uint64_t thinned = 0;       // left out, since there was no room
  std::uint64_t taken = 0;         // into the log
  std::uint64_t waiting = 0;       // for their producer, or on their way, when the run ended
  std::uint64_t waiting_most = 0;  // for their producer
  std::uint64_t dropped = 0;       // of those that were taken: no longer in the log
  std::uint64_t kept_bytes_most = 0;
};

// A fault of the scenario, and its effect.
struct FaultResult {
  std::string kind;
  std::string target;
  bool struck = false;  // there was something to strike; else there are no times
  std::optional<double> from_s;
  std::optional<double> until_s;  // the end of the run, if the fault was not over by then
  std::uint64_t parts = 0;  // nodes, workers, commands held, reads failed, corrupt samples met
};

// Sums from the start of the run to a point in time, and levels at that time: what reports draw.
struct JobPoint {
  std::uint64_t samples = 0;
  double stall_s = 0;
};
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
  double busy_s = 0;     // of workers: they prepare, or a read holds them
  double compute_s = 0;  // of all ranks, as the sums below
  double stall_s = 0;
  double idle_s = 0;
  Waits waited;  // of the stalls that are over
  CachedBytes cached;
  std::uint64_t ranks = 0;     // of jobs that run
  std::uint64_t stalling = 0;  // of these, ranks that wait for a batch
  std::uint64_t reading = 0;   // commands under way
  std::uint64_t preparing = 0;
  std::uint64_t workers = 0;
  std::vector<JobPoint> jobs;  // the first kJobsInSeries
};
inline constexpr std::size_t kJobsInSeries = 16;

// What a run would gain from twice as much of a resource, found by running it so. `speedup` is
// samples a second then over now; for a job that is done in both runs, the time now over the time
// then.
struct JobGain {
  std::string name;
  double time_s = 0;
  double speedup = 1;
};
struct Gain {
  std::string resource;  // storage, drives, cores, workers, cache, network, memory, pcie
  double makespan_s = 0;
  double samples_per_s = 0;
  double speedup = 1;
  std::vector<JobGain> jobs;
};

struct RunResult {
  std::string label;  // what tells it from the others of a comparison
  std::string scenario;
  std::vector<std::pair<std::string, std::string>> policies;  // kind, policy
  std::vector<std::pair<std::string, std::string>> settings;  // of the engine beside its policies
  // What its jobs trained on, and how: `dataset NAME`, `pipeline NAME`, `job NAME`, each in words.
  std::vector<std::pair<std::string, std::string>> workload;
  // Fields that were not measured, as `aggregate.pcie_bytes` or `jobs.waited`: those of all jobs.
  // They are null in JSON and empty in CSV.
  std::vector<std::string> not_measured;
  std::uint64_t seed = 0;
  std::string digest;  // of all commands
  bool interrupted = false;
  std::string failure;  // why the run has no results
  std::string remark;   // what else a reader should know
  double makespan_s = 0;
  double counted_from_s = 0;  // the figures over all jobs leave out what was before (warm_up)
  double wall_s = 0;          // that the simulation took
  std::uint64_t steps = 0;    // of the engine
  std::uint64_t stale_completions = 0;
  std::uint64_t protocol_errors = 0;
  std::uint64_t refused_proposals = 0;
  // Of samples that are followed: requests, hits, and the hits of caches that knew all next uses.
  std::uint64_t followed_requests = 0;
  std::uint64_t followed_hits = 0;
  std::uint64_t followed_bound_hits = 0;
  Aggregate aggregate;
  ClusterSizes cluster;
  std::vector<JobResult> jobs;
  std::vector<SourceResult> sources;
  std::vector<FaultResult> faults;
  std::vector<StepResult> preparation_steps;  // together preparation_s
  std::vector<Gain> bottlenecks;              // if they were asked for
  std::vector<SeriesPoint> series;            // about evenly apart; not written to results
};

// Whether the run has a figure in the field, which is named as in `not_measured`.
bool is_measured(const RunResult& run, std::string_view field);

// An object with `command`, `version`, the members of the object `more`, and `runs`. The runs are
// written when the content is read, so they outlive it.
Content results_json(std::span<const RunResult> runs, const std::string& command,
                     const std::string& version, const std::string& more = "{}");
// One row a job; the first two columns name the run and its seed.
Content jobs_csv(std::span<const RunResult> runs);

// One row a run: columns `names` with its `values`, then seed, makespan and the figures over all
// jobs.
std::string runs_csv(std::span<const RunResult> runs, const std::vector<std::string>& names,
                     const std::vector<std::vector<std::string>>& values);

// The text of a file; `-` is standard input. Throws ConfigError.
std::string read_results_file(const std::string& path);

// Reads what results_json has written; missing fields keep their defaults. Throws ConfigError with
// `name`.
std::vector<RunResult> parse_results(const std::string& text, const std::string& name);

// One run, with its series, on a line.
std::string encode_run(const RunResult& run);
// Throws ConfigError for a text that is not a run.
RunResult decode_run(const std::string& text);

// Figures over all jobs of a run, computed alike for simulated jobs and for those of a service.

// The AU over the time after each job's first step, or of its only step, weighted by ranks.
double mean_au(std::span<const JobResult> jobs);
// Sets the times to completion, slowdown and fairness, over the jobs that ended after
// `ended_after_s`.
void count_completions(std::span<const JobResult> jobs, Aggregate& sum, double ended_after_s = 0);
// Sets the figures of sources that grow, and of the jobs that read them; and those of buffers.
void count_records(const RunResult& run, Aggregate& sum);
void count_buffers(std::span<const JobResult> jobs, Aggregate& sum);
// Each user's time with GPUs / time computed, over that user's jobs that were done; least first.
// Jobs without a user are passed over.
std::vector<double> user_slowdowns(std::span<const JobResult> jobs);
// Jain's index: 1 if all are equal, 1/n if one of n has everything. Values of 0 and none are 1.
double jain_index(std::span<const double> values);
// The least value that `share` of the sorted values do not exceed. REQUIRES: !empty()
double quantile(std::span<const double> sorted, double share);

// The share of the requested samples that were not read. Failed reads are read again, so `read` may
// be more than `requested`.
double hit_ratio(std::uint64_t read, std::uint64_t requested);

}  // namespace batchflow::output
