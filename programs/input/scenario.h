// A scenario: everything that a simulated run depends on, read from YAML and checked before it
// runs.
//
// A scenario names its cluster (a file found by name or path, or a map in place), its datasets,
// pipelines and jobs, the configuration of the engine, a seed and a grain. What cannot be right is
// a ConfigError with file, line and what to write instead. The simulator runs it; the runtime's
// load generator reads the same.
//
// Grain: with `samples_per_item` above one, the engine counts items of that many samples in place
// of samples. Everything here stays of one sample, and the `item_*` functions convert.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/engine/engine_config.h"
#include "programs/config/config.h"
#include "programs/input/cluster_model.h"
#include "programs/input/fault_model.h"
#include "programs/input/workload_model.h"

namespace batchflow::input {

struct GrainModel {
  std::uint32_t samples_per_item = 1;
  std::uint32_t items_per_block = 0;  // 0: the engine fits blocks to their bytes
  // Above 1, for datasets no larger than a block: the number of whole epochs of one dataset that a
  // block stands for.
  std::uint32_t epochs_per_block = 1;
};

// What varies in each scenario that does not say otherwise, so that another seed is another run.
struct JitterModel {
  Duration arrival{0};  // a job comes later by at most that much
  double step = 0;      // deviation / mean of the steps of a job, the same for all its ranks
};
inline constexpr JitterModel kUsualJitter{std::chrono::milliseconds(5), 0.01};

// Which job gets GPUs first. fifo: the job that came first, and no job passes it. recorded: each
// job when the log says that it began, or as soon after that as there are GPUs. sjf: the job that
// computes least. las: the job that had the least GPU time, in two levels; jobs of the level with
// more make room for jobs of the level with less.
enum class Scheduler : std::uint8_t { fifo, recorded, sjf, las };
inline constexpr std::string_view kSchedulers[] = {"fifo", "recorded", "sjf", "las"};

// What a job does when it loses a node. waits: it keeps its GPUs elsewhere, and goes on when all
// its nodes are there again. moves: it leaves its GPUs, and gets others before all jobs that wait.
enum class AfterLoss : std::uint8_t { waits, moves };
inline constexpr std::string_view kAfterLoss[] = {"waits", "moves"};

// A node's `cache` holds what the node keeps. Reads land in memory beside it, unless a scenario
// says otherwise.
inline engine::EngineConfig engine_of_scenarios() {
  engine::EngineConfig engine;
  engine.count_staging = false;
  return engine;
}

struct Scenario {
  std::string name;
  std::uint64_t seed = 1;
  ClusterModel cluster;
  std::vector<DatasetModel> datasets;
  std::vector<PipelineModel> pipelines;
  std::vector<JobModel> jobs;  // by arrival
  Scheduler scheduler = Scheduler::fifo;
  AfterLoss after_loss = AfterLoss::waits;
  engine::EngineConfig engine = engine_of_scenarios();
  GrainModel grain;
  JitterModel jitter;
  std::vector<FaultModel> faults;
  Duration warm_up{0};     // simulated time that the figures over all jobs leave out
  Duration ends_after{0};  // simulated time at which the run is cut; 0: when all jobs are done

  // In units of the engine.
  std::uint32_t samples_per_item(const DatasetModel& dataset) const;
  std::uint64_t items(const DatasetModel& dataset) const;
  std::uint32_t in_items(const JobModel& job, std::uint32_t samples) const;
  std::uint32_t item_batch(const JobModel& job) const { return in_items(job, job.batch); }
  Bytes item_bytes(const DatasetModel& dataset) const;
};

// The tree of a scenario, with the files that it names in place; overrides are applied before it is
// read.
config::ConfigNode load_scenario(const std::string& name_or_path);
// Puts the files that a tree names in place: `cluster: laptop`, and `workload: w1-imagenet`, which
// brings datasets, pipelines, jobs and, where the tree has none, a grain. `path` is the file of the
// tree; empty: none.
void resolve_names(config::ConfigNode& tree, const std::string& path = "");
Scenario read_scenario(const config::ConfigNode& tree);
// A scenario without jobs, datasets and pipelines: those of a replay come from elsewhere.
Scenario read_cluster_and_engine(const config::ConfigNode& tree);

// A commented scenario with every default.
std::string scenario_template();

}  // namespace batchflow::input
