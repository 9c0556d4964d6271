// What a service is doing at one moment, for batchflowctl, the metrics and the status page alike.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/engine.h"
#include "core/engine/engine_config.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/feeds/feed_server.h"
#include "runtime/service/backend/backend.h"
#include "runtime/service/backend/reports.h"
#include "runtime/service/cluster/node_counters.h"
#include "runtime/service/http/history.h"
#include "runtime/service/jobs/jobs.h"
#include "runtime/service/log/recorder.h"

namespace batchflow::service {

inline double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

struct Snapshot {
  struct Pipeline {
    std::string name;
    Bytes decoded_bytes = 0;   // of a sample; 0: nothing is kept decoded
    Bytes prepared_bytes = 0;  // what it takes of the slot of its block
  };
  struct Dataset {
    std::string name;
    std::string path;
    std::uint64_t samples = 0;
    Bytes bytes = 0;
    Digest version = 0;
    std::size_t classes = 0;
    std::string format;  // as it was said; empty: found out
    std::uint64_t tokens = 0;
    sources::SequenceRule sequences = {};
    bool pinned = false;   // kept, though no job reads it
    bool brought = false;  // by a job, which named its path
    std::uint64_t bundle_samples = 1;
    std::string column, label;        // as they were said; empty: found out, or no table
    std::vector<Pipeline> pipelines;  // that jobs have used; without those that a job brought
    std::optional<feeds::FeedStatus> feed = std::nullopt;  // it takes records
  };
  // What people can read instead of a brought pipeline's name, which is a hash.
  struct PipelineSteps {
    bool brought = false;  // by a job
    std::vector<std::string> names;
  };
  std::string version;
  std::string page;      // its address; empty: there is none
  std::string page_key;  // with which the page has all names; empty: the reader may not know it
  pid_t process = 0;
  double up_s = 0;
  std::string storage;
  Bytes memory_bytes = 0;
  Bytes cache_bytes = 0;
  Bytes planned_bytes = 0;           // of these, what the engine divides
  std::size_t waits_for_memory = 0;  // blocks and batches, now
  Bytes used_bytes = 0;              // of these, with what jobs have not yet unmapped
  Bytes item_bytes = 0;
  Bytes block_bytes = 0;
  Bytes staged_bytes = 0;       // by reads, now
  Bytes staged_bytes_most = 0;  // at any time
  Bytes staging_bytes = 0;      // that are set apart for them
  Bytes spill_limit_bytes = 0;  // 0: there is no second tier
  Bytes spill_bytes = 0;
  SpillCounters spill;
  std::uint32_t workers = 0;
  std::uint32_t workers_most = 0;
  std::uint32_t cores = 0;
  double preparing_s = 0;
  std::size_t connections = 0;
  engine::EngineCounters engine;
  std::string preset;
  engine::PolicyTexts policies;
  std::string settings;  // of the engine, a `key=value` a line
  std::uint64_t seed = 0;
  std::uint64_t steps = 0;  // of the engine
  std::uint64_t events = 0;
  std::uint64_t digest = 0;  // of all its commands
  BackendCounters moved;
  StageTimes stalls;          // of all jobs there ever were
  WaitHistogram waits;        // likewise
  bool user_labels = false;   // metrics may name jobs' users
  double storage_busy_s = 0;  // anything was being read
  double reads_s = 0;         // how long each block was being read, added up
  std::uint32_t reads_now = 0;
  std::uint32_t preparing_now = 0;
  std::vector<CacheShare> cache;
  JournalState journal;
  std::uint64_t locked_memory_most = 0;  // bytes, as the system limits this process
  std::uint64_t files_most = 0;
  std::vector<Jobs::Status> jobs;
  std::map<std::uint32_t, engine::PipelineInfo> job_pipelines;  // of jobs, by id
  std::map<std::uint32_t, PipelineSteps> job_steps;             // likewise
  HistoryPoint counters;                                        // as they are now
  std::vector<HistoryPoint> history;  // as they were before, the oldest first
  JobPoints jobs_before;              // what jobs had done some seconds ago
  WaitTotals waited;                  // by all jobs there ever were
  std::string state;                  // its folder
  std::vector<Dataset> datasets;
  std::map<std::string, std::uint32_t> brought;  // all those ever, by name: their numbers
  Bytes steps_bytes = 0;                         // of memory, set apart for steps' processes
  std::vector<StepReport> step_reports;
  std::vector<failpoint::FailpointCount> failpoints;  // where any is configured
  std::vector<std::string> opening;                   // datasets: their indices are being made
  std::vector<std::string> returning;  // jobs of the service before that are not back
  bool draining = false;               // it ends when its jobs have
  std::vector<NodeStatus> nodes;       // beside this one
  std::vector<LinkTraffic> links;      // of this node
  // Sums over the users with jobs that are not shown.
  struct Others {
    std::uint32_t jobs = 0;
    std::uint64_t samples = 0;
    Duration waited{0};
    Duration computed{0};
  };
  Others others;
};

// An agent's node. Jobs and datasets are its coordinator's to show.
struct AgentSnapshot {
  std::string version;
  pid_t process = 0;
  double up_s = 0;
  std::string coordinator;  // its address; empty: the agent looks for it
  std::string page;         // the coordinator's; empty: it has none
  std::size_t connections = 0;
  NodeStatus node;
  // How many samples of either kind there were, the oldest first.
  std::vector<HistoryPoint> delivered, prepared;
};

// What `user` may see: the service's own user and root see every job, others see their own.
Snapshot as_seen_by(uid_t user, Snapshot all);
// What any program on the machine may see without showing its user. Jobs of other users than the
// service's have numbers for names, and so have all folders that jobs have brought.
Snapshot as_seen_by_any_program(Snapshot all);

// The object that `batchflowctl status --json` prints; `with_models`: each job also has what a
// simulation of it needs to know.
std::string to_json(const Snapshot& snapshot, bool with_models = false);
// In Prometheus' text format, version 0.0.4.
std::string metrics_text(const Snapshot& snapshot);
// A page that loads nothing of other machines. Its script asks for it again now and then, and takes
// over what differs; without JavaScript it stays as it was.
std::string status_page(const Snapshot& snapshot);

std::string to_json(const AgentSnapshot& snapshot);
std::string metrics_text(const AgentSnapshot& snapshot);
std::string status_page(const AgentSnapshot& snapshot);

// What both pages name: /page.js and /page.css.
std::string_view page_script();
std::string_view page_style();

}  // namespace batchflow::service
