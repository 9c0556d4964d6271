// What was seen of jobs that really ran, and the scenario that a simulator makes of it.
//
// A journal (journal_workload.h) or the status of a service that runs fills it. One function turns
// it into a scenario, so that a what-if of yesterday and one of the coming hour are derived alike.
// What was not measured is assumed, and every assumption stands in the scenario's first lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/types.h"
#include "programs/config/config.h"

namespace batchflow::input {

inline double seconds_of(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

struct ObservedDataset {
  std::string name;
  std::uint64_t samples = 0;
  Bytes bytes = 1;                // of a stored sample, mean
  double bytes_jitter = 0;        // standard deviation over mean
  std::uint8_t bundle_shift = 0;  // 2^bundle_shift samples are read at once
};

// A pipeline on a dataset: sizes and costs of one sample. Costs are of one core.
struct ObservedPipeline {
  std::string name;
  Bytes decoded_bytes = 0;  // 0: nothing is kept decoded
  Bytes prepared_bytes = 1;
  double decode_s = 0;
  double augment_s = 0;
  double jitter = 0;
  bool was_measured = false;  // costs were; else the service expected them
};

struct ObservedJob {
  std::string name;
  std::string user;
  std::size_t dataset = 0;
  std::size_t pipeline = 0;
  Order order = Order::relaxed;
  bool keyed = false;  // of a service: a store, which asks for samples
  std::optional<std::uint64_t> shuffle_seed;
  std::uint32_t batch = 1;
  bool drop_last = false;
  bool node_local = false;
  bool runs = false;
  std::uint32_t rehearsed = 0;
  std::uint32_t exemplars = 0;
  std::uint32_t credits = 0;  // 0: the engine's
  double weight = 1;
  Duration latency_target{0};
  std::uint32_t ranks = 1;
  std::vector<std::uint32_t> nodes;  // of its ranks, each once; empty: any
  std::uint32_t epochs = 1;
  std::uint64_t steps = 0;  // after which it is done; 0: when its epochs are
  double step_s = 0;        // of a rank on one batch, mean
  double step_jitter = 0;
  Duration arrives{0};
};

struct ObservedNode {
  std::uint32_t cores = 1;  // workers
  Bytes cache = 0;          // of memory, what the engine divides
  Bytes nvme = 0;
  bool workers_help = false;  // all prepare the block that came first
};

// How the store answers, as far as times of reads tell.
struct ObservedStore {
  double latency_s = 0;    // of one operation of a reader that has one under way
  double bytes_per_s = 0;  // of all readers together; 0: it never was the limit
};

struct ObservedWorkload {
  std::string name;  // of the scenario
  std::uint64_t seed = 1;
  std::string configuration;  // of the engine, a `key=value` a line
  std::vector<ObservedNode> nodes;
  std::vector<ObservedDataset> datasets;
  std::vector<ObservedPipeline> pipelines;
  std::vector<ObservedJob> jobs;  // by arrival
  std::optional<ObservedStore> store;
  Duration ends_after{0};  // simulated time at which the run is cut; 0: when all jobs are done
  std::vector<std::string> notes;  // what is not as it was, each a sentence
};

// What a scenario was made from.
struct DerivedScenario {
  std::string text;                // YAML, with `assumed` and `notes` in its first lines
  std::vector<std::string> known;  // which figures were recorded or measured
  std::vector<std::string> assumed;
};

// `cluster` is the tree of a cluster file that was measured on the machine of `observed`
// (`batchflowctl calibrate --cluster`). Null: the hardware is estimated from `observed`. Memory and
// workers are those of `observed` in both cases. Throws ConfigError for a cluster that cannot be
// that machine, and for a workload without jobs.
DerivedScenario derive_scenario(const ObservedWorkload& observed,
                                const config::ConfigNode* cluster);

// The machine and the data alone, as `batchflowctl calibrate` writes them.
struct CalibrationFiles {
  std::string cluster;   // YAML
  std::string workload;  // YAML, of datasets and pipelines
  std::vector<std::string> assumed;
};
CalibrationFiles calibration_of(const ObservedWorkload& observed);

}  // namespace batchflow::input
