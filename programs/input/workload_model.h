// What is trained on a cluster: datasets, the pipelines that prepare them, and the jobs.
//
// All sizes and costs are of one sample, at any grain of the scenario.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/types.h"
#include "core/engine/catalogue.h"
#include "programs/config/config.h"
#include "programs/input/importance.h"
#include "programs/input/live_model.h"
#include "programs/input/quantities.h"

namespace batchflow::input {

struct Scenario;

struct DatasetModel {
  enum class Format : std::uint8_t { raw, jpeg };
  std::string name;
  std::uint64_t samples = 0;
  Bytes bytes = 0;            // of a stored sample, mean
  Bytes read_bytes = 0;       // that reading it alone takes of the store: whole sectors, say
  Duration opens{0};          // until the first job on it can begin
  bool compute_only = false;  // made where it is used: nothing is moved
  Spread bytes_spread;
  Format format = Format::raw;
  Bytes bundle = 0;                    // in which small samples are read and kept; 0: each alone
  std::uint32_t samples_per_item = 0;  // 0: the scenario's grain
  std::optional<LiveModel> live;       // it grows, to so many samples; each is a record
};

struct StepModel {
  std::string name;
  bool random = false;
  Duration cost{0};                       // on one core
  double ns_per_byte = 0;                 // of its input, beside `cost`
  Size output{true, 0, {Ratio::kWhole}};  // bytes, or relative to its input
  bool kept = true;  // false: neither its output nor a later one is kept decoded
};

// A step applied to one sample.
struct AppliedStep {
  const StepModel* step;
  Duration cost;
  Bytes output;
  bool before_random;  // its output, or a form made from it, is the decoded form
};

// Samples that take many times as long as others, the same samples each time.
struct SlowSamples {
  double fraction = 0;
  double times = 1;
};

struct PipelineModel {
  std::string name;
  std::vector<StepModel> steps;
  Spread spread;  // of the time that a sample takes
  SlowSamples slow;
  // For replays, instead of the scenario's grain: a block stands for a stream of blocks of the
  // engine's size, and takes the memory of one. 0: the scenario's.
  std::uint32_t items_per_block = 0;
  std::uint32_t epochs_per_block = 0;
  std::uint32_t cores_most =
      0;  // that prepare one block, and readers that read for it; 0: all of a node

  bool decodes() const;
  std::vector<AppliedStep> applied(Bytes stored_bytes) const;
  // The pipeline for the engine, for items of `samples` samples of `stored_bytes` each.
  engine::PipelineInfo info(Bytes stored_bytes, std::uint32_t samples = 1) const;
};

// What ranks exchange in each step, around a ring of their nodes, while they compute and after it.
struct ExchangeModel {
  Bytes bytes = 0;     // of gradients
  double after = 0.5;  // the part of the step that is computed before the first are there
};

// A job writes what it has learnt to the store, each node its part. A job that loses a node goes
// back to the last checkpoint that was written as a whole.
struct CheckpointModel {
  std::uint64_t every = 0;  // steps; 0: none, and the job goes on from its last step
  Bytes bytes = 0;          // of all nodes together
  bool waits = true;        // the job does not compute until it is written
};

// Of a mixture: parts of the dataset of about equal size, the i-th of which weighs 1 / i^skew.
struct MixtureModel {
  std::uint32_t sources = 0;  // 0: the job has no mixture
  double skew = 0;
  std::uint64_t draws = 0;         // samples of an epoch; 0: as many as the dataset has
  std::uint64_t change_every = 0;  // samples, after which each source gets the weight of the next
  // From sample `at` of the job on, the sources weigh 1 / i^skew with another skew.
  struct Scheduled {
    std::uint64_t at = 0;
    double skew = 0;
  };
  std::vector<Scheduled> schedule = {};
  // Not empty: this policy sets the weights by the loss of each source.
  std::string policy = {};
  // The loss of a source is `from` at first and comes near `to`. Half of the way is done after
  // `half_after` samples of the first source; the i-th source needs i^spread times as many.
  struct Losses {
    double from = 3;
    double to = 1;
    double half_after = 100'000;
    double spread = 0;
  };
  Losses losses = {};

  // The loss of a source after so many samples of it.
  double loss(std::uint32_t source, double samples) const;
  // With the weights that they have after so many changes.
  std::vector<double> weights(std::uint64_t changes) const { return weights(changes, skew); }
  std::vector<double> weights(std::uint64_t changes, double by) const;
};

struct JobModel {
  std::string name;
  std::string user;
  int dataset = 0;  // index in the scenario
  int pipeline = 0;
  Order order = Order::relaxed;
  bool has_shuffle_seed = false;
  std::uint64_t shuffle_seed = 0;
  std::uint32_t batch =
      1;  // samples of one rank; where blocks stand for streams, of all ranks together
  bool drop_last = false;
  bool node_local = false;       // relaxed: each block is for the ranks of one node
  bool runs = false;             // relaxed: runs are shuffled, and samples near one another
  MixtureModel mixture;          // mixed
  LiveReading live;              // of a dataset that grows
  std::uint32_t rehearsed = 0;   // of each batch, drawn from a buffer; live: so many are fills
  std::uint32_t exemplars = 0;   // samples of the dataset in that buffer, chosen at random;
                                 // live: of the reservoir that fills come from; 0: of the last
  std::string rehearsal_policy;  // or by this policy, of what the job has had
  Importance importance;         // weighted orders: the scores that it reports
  std::uint32_t epochs = 1;
  std::uint64_t steps = 0;  // after which it is done; 0: when its epochs are done
  // Samples that it trains on in these steps, in equal parts; 0: what its batches hold. Blocks that
  // stand for streams have few sizes, so that jobs can share them.
  std::uint64_t samples_in_all = 0;
  std::uint32_t credits = 0;  // 0: the engine's default
  double weight = 1;
  Duration latency_target{};  // how long it may wait for a batch without harm
  std::uint32_t ranks = 1;    // a GPU each
  std::vector<int> nodes;     // where they run, in turn; empty: wherever GPUs are free
  Duration step{0};           // of a rank's GPU on one batch
  Spread step_spread;         // of a rank beside the others
  double steps_vary = 0;      // deviation / mean of steps, the same for all ranks
  Duration loader_step{0};    // of its own loader, for each batch, before it computes
  double loader_sample_ns = 0;
  Bytes gpu_bytes = 0;  // that training takes of each GPU's memory
  ExchangeModel exchange;
  CheckpointModel checkpoint;
  std::vector<JobModel> validation;   // while jobs are read: its own, if it has one
  int validates_for = -1;             // the job that this one validates; -1: none
  std::uint32_t validates_every = 1;  // after so many epochs of that job, which waits meanwhile
  Instant arrives{};
  Duration arrives_spread{0};  // it comes later by at most that much, by chance
  Instant not_before{};        // when it began, where jobs begin as recorded
  Duration start_up{0};        // from getting its GPUs to its first request
  Duration leaves_after{0};    // of running; 0: when its epochs are done

  // The time that each of its GPUs computes in one of the epochs that a block stands for, if the
  // job ends by its steps.
  Duration work() const;
};

// All but the name.
DatasetModel read_dataset(config::ConfigSection& section);
std::vector<StepModel> read_steps(config::ConfigSection& section);
std::vector<DatasetModel> read_datasets(config::ConfigSection& section);
std::vector<PipelineModel> read_pipelines(config::ConfigSection& section);

// The jobs of a scenario, written one by one or generated: `count` of them, one `every` so often.
// REQUIRES: cluster, datasets, pipelines, grain and seed of the scenario are there already.
std::vector<JobModel> read_jobs(config::ConfigSection& section, const Scenario& scenario);

}  // namespace batchflow::input
