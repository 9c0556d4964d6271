// What a job asks of its order beside its name and seed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/types.h"

namespace batchflow::protocol {

// A source of a mixture: a folder, or a file, at the dataset's root.
struct WeighedSource {
  std::string name;
  double weight = 0;
  friend bool operator==(const WeighedSource&, const WeighedSource&) = default;
};

// From sample `at` of the job on, the sources of a mixture have these weights.
struct ScheduledWeights {
  std::uint64_t at = 0;
  std::vector<double> weights;
  friend bool operator==(const ScheduledWeights&, const ScheduledWeights&) = default;
};

struct OrderOptions {
  std::uint64_t draws = 0;      // weighted, mixed: of one epoch; 0: as many as there are samples
  bool multinomial = false;     // weighted: independent draws instead of systematic ones
  bool node_local = false;      // relaxed: each block is for the ranks of one node
  bool runs = false;            // relaxed: runs are shuffled, and samples near one another
  std::uint32_t rehearsed = 0;  // of each rank's batch, from its buffer if it has one; live: fills
  std::vector<WeighedSource> sources = {};  // mixed
  bool sources_in_order = false;            // mixed: they are not shuffled
  bool weights_change = false;              // mixed: the job may ask for other weights
  // A buffer that the service fills: its size (0: there is none), and the policy that fills it.
  // Jobs of one user and dataset that give the same name share one buffer; the name is the job's
  // unless given.
  std::uint32_t buffer_exemplars = 0;
  std::string buffer_policy = {};
  std::string buffer_name = {};
  // Live: how long a step waits for records before it is filled; from how many of the job's last
  // records, 0: it is never filled; whether fills only stand for what is missing; whether the job
  // begins with the next record that comes, instead of the oldest that is there.
  double fills_after_s = 0;
  std::uint64_t fills_from = 0;
  bool fills_cut = false;
  bool from_newest = false;
  std::optional<std::uint64_t> begin_at = {};  // live: the first record of the job
  bool keyed = false;  // live: the program asks for samples by their keys, one in each batch
  // Mixed: weights that are known beforehand, and the policy that sets others (empty: none does).
  std::vector<ScheduledWeights> schedule = {};
  std::string weights_policy = {};
  // Whether weights may come that are not known when the job begins.
  bool may_change() const { return weights_change || !weights_policy.empty(); }
  friend bool operator==(const OrderOptions&, const OrderOptions&) = default;
};

// Empty, or why nothing can be drawn by these weights.
std::string weights_problem(std::span<const double> weights);
// Empty, or why no job can have such an order and what to ask for instead. `exemplars` is the
// buffer that the job begins with. The client asks before it joins, and the service asks again.
std::string order_problem(Order order, std::uint32_t batch_samples, const OrderOptions& options,
                          std::span<const SampleId> exemplars);

}  // namespace batchflow::protocol
