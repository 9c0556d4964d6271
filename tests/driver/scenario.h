// What a run of the virtual-time driver consists of, as data: nodes, datasets, jobs, durations, and
// everything that goes wrong, each at its time. A seed makes one; tests write others by hand.
//
// The same scenario gives the same run, command for command.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/types.h"
#include "core/engine/catalogue.h"
#include "core/engine/engine_config.h"
#include "core/engine/event.h"
#include "core/order/mixing.h"

namespace batchflow::test {

constexpr Duration us(std::int64_t n) {
  return std::chrono::microseconds(n);
}
constexpr Duration ms(std::int64_t n) {
  return std::chrono::milliseconds(n);
}
constexpr Instant at(Duration since_start) {
  return Instant(since_start);
}

struct NodePlan {
  NodeId id;
  std::uint32_t cores = 2;
  Bytes dram = 1 << 20;
  Bytes nvme = 0;  // 0: no such place
  Duration joins{0};
  std::vector<Bytes> gpus = {};  // what each keeps
};

struct DatasetPlan {
  DatasetId id;
  Digest version = 1;
  std::uint64_t samples = 64;
  Bytes bytes = 100;
  std::vector<SampleId> corrupt = {};
  Bytes bytes_most = 0;  // sizes from `bytes` to that; 0: all alike

  // It grows: so many records have come by then. `samples` is the most that it may have.
  struct Arrival {
    Duration when{0};
    std::uint64_t end = 0;
  };
  std::vector<Arrival> arrivals = {};
  bool ends = true;     // with the last of them
  Bytes kept_most = 0;  // that its log keeps; 0: all

  std::uint8_t bundle_shift = 0;  // samples are read and kept 2^bundle_shift at a time

  Bytes bytes_of(SampleId sample) const;
  Bytes largest_bytes() const;
  // Of the samples of a bundle, from its first on.
  Bytes bundle_bytes(SampleId first) const;
  engine::Catalogue catalogue() const;
};

struct PipelinePlan {
  PipelineId id;
  engine::PipelineInfo info;
};

struct JobPlan {
  std::uint64_t user = 1;
  DatasetId dataset{1};
  PipelineId pipeline{1};
  Order order = Order::relaxed;
  bool has_shuffle_seed = false;
  std::uint64_t shuffle_seed = 0;
  std::uint32_t batch_samples = 4;
  bool drop_last = false;
  std::uint32_t epochs = 1;
  bool epochs_told = true;  // to the engine; else it learns of the end when the job leaves
  std::uint64_t steps =
      0;  // it leaves after so many, and says so when it joins; 0: after its epochs
  std::uint32_t credits = 2;
  std::vector<NodeId> ranks = {};
  Duration joins{0};
  Duration compute = ms(1);            // of a step
  Duration hold{0};                    // from a batch consumed to its slot released
  std::uint64_t draws = 0;             // weighted: of an epoch; 0: as many as there are samples
  bool multinomial = false;            // weighted
  bool node_local = false;             // relaxed
  bool runs = false;                   // relaxed, of a dataset with bundles
  std::uint32_t rehearsed = 0;         // of each batch, once there is a buffer; live: a record
  std::uint32_t exemplars_in_100 = 0;  // after how many of its steps a rank reports some; at joins
  std::vector<SampleId> exemplars = {};  // what it reports whenever it joins
  // A buffer that the engine fills; without a policy it has none.
  std::string buffer_policy = {};
  std::uint32_t buffer_exemplars = 0;
  std::uint64_t buffer = 0;         // the name; 0: one of its own
  std::uint32_t scores_in_100 = 0;  // after how many of its steps a rank reports scores
  // Reported before the last of its ranks asks for its first batch, whenever the job is let in.
  std::vector<engine::Score> scores_first;
  std::vector<SampleRange> sources = {};  // mixed
  std::vector<double> weights = {};       // of these
  std::uint32_t changes_in_100 = 0;       // after how many of its steps other weights are asked for
  std::vector<order::MixtureChange> changes = {};  // mixed: told when it joins
  std::string weights_policy = {};                 // mixed: other weights come by it
  std::vector<float> losses = {};    // which each rank reports after each of its steps
  Duration fills_after{};            // live
  std::uint64_t fills_from = 0;      // live
  bool fills_cut = false;            // live
  std::uint32_t reservoir = 0;       // live: exemplars that fills come from, instead of fills_from
  std::uint64_t listed_batches = 0;  // of a listed order: how many in all
};

// How long things take; each is drawn from half to one and a half of what stands here.
struct Timings {
  Duration read = ms(1);
  Duration prepare = ms(2);
  Duration transfer = us(100);
  Duration deliver = us(100);
  bool jitter = true;
};

// Chances in 1000 that a command comes to nothing, until `heal`.
struct Failures {
  std::uint32_t read = 0;
  std::uint32_t prepare = 0;
  std::uint32_t transfer = 0;
  std::uint32_t deliver = 0;
  std::uint32_t stale_reports = 0;  // a completion is reported twice, or for an older attempt
};

struct Fault {
  enum class Kind : std::uint8_t {
    worker_lost,       // number: the worker among those there are; quiet after `later`, 0: at once
    node_lost,         // number: the node; comes back after `later`
    rank_lost,         // number: the job; its ranks are `ranks` after `later`, 0: never resized
    job_resized,       // without a loss
    job_leaves,        // and comes back after `later` with its position
    coordinator_lost,  // all that is left are clients' positions; a new engine after `later`, with
                       // `bytes` as its block size if that is not 0
    capacity,          // number: the node; bytes
    policy,            // text
    rank_stops,        // number: the job; it computes no more for `later`
    nonsense,          // number: which, events that cannot be
    rank_abandoned,    // number: the job; it is not resized
    node_quiesced,     // number: the node; it is lost after `later`, 0: never, and comes back
    configuration,     // text
    drive,             // number: the node; of so many bytes, for as long as the node is up
    kept,              // number: the dataset and what becomes of it
    measured,          // number: of what is kept decoded; bytes
    gpu,               // number: the node and which of its GPUs; bytes
  };
  Kind kind;
  Duration when{0};  // or after so many steps of the first job, see `after_steps`
  std::uint64_t number = 0;
  Duration later{0};
  std::uint32_t batch_samples = 0;
  std::vector<NodeId> ranks = {};
  Bytes bytes = 0;
  std::string text = {};
  std::uint64_t after_steps = 0;
};

struct Scenario {
  std::uint64_t seed = 0;
  engine::EngineConfig config;
  std::vector<NodePlan> nodes;
  std::vector<DatasetPlan> datasets;
  std::vector<PipelinePlan> pipelines;
  std::vector<JobPlan> jobs;
  Timings timings;
  Failures failures;
  Duration heal{0};  // after that nothing fails any more
  std::vector<Fault> faults;
  bool let_go_ends = false;    // a node that may end does, and comes back much later
  bool from_promises = false;  // a new engine is told what the old one's promises add up to

  std::string text() const;
};

// One node with two cores, one dataset of 64 samples in blocks of 8, no caches, no faults, no job.
Scenario small_scenario();
// The same with memory for 64 blocks, and with these jobs.
Scenario roomy_scenario(std::vector<JobPlan> jobs = {});
// Anything at all.
Scenario random_scenario(std::uint64_t seed);
// The same with up to ten nodes, 14 jobs and 100,000 samples of mixed sizes, and of more kinds of
// faults.
Scenario wide_scenario(std::uint64_t seed);

}  // namespace batchflow::test
