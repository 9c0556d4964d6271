// Rehearsal: a part of each rank's batch is new samples, in the plain order and exactly once. The
// rest is exemplars from a buffer, which has a promise of its own and is marked in every batch.
//
// The promise of a buffer of n exemplars: in an epoch, its draws 0 to n-1 have each exemplar once,
// and so do n to 2n-1, and so on. So each is drawn equally often or once more. The draws follow
// from buffer, epoch and key root alone. An epoch keeps the buffer that it began with. A job that
// comes back in the middle of an epoch goes on with the buffer it has then, at the draw that it had
// reached. An epoch that begins with an empty buffer is plain: its batches have only new samples.
//
// Where exemplars have weights, an exemplar comes in each round of n draws as often as its part of
// the sum of weights says, rounded up or down.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/types.h"
#include "core/order/keys.h"
#include "core/order/order.h"
#include "core/order/step_plan.h"
#include "core/order/weighted.h"

namespace batchflow::order {

inline constexpr std::size_t kExemplarsMost = 1 << 16;  // in a buffer

// Whether jobs with this order may rehearse from a buffer. Those of live sources rehearse by fills
// instead (core/order/live_epoch.h).
constexpr bool may_rehearse(Order order) {
  return order != Order::weighted && order != Order::listed && order != Order::live;
}

struct RehearsalPlan {
  StepPlan plain;               // with b - m samples a rank
  std::uint32_t rehearsed = 0;  // m, of each rank's b; 0: nothing is rehearsed
  std::uint64_t drawn = 0;      // from the buffer in this epoch, before the first step

  // REQUIRES: rehearsed < whole.batch_samples
  static RehearsalPlan split(StepPlan whole, std::uint32_t rehearsed, std::uint64_t drawn = 0);
  // ceil(N / (W(b - m))) from the start, without drop_last.
  std::uint64_t steps() const { return plain.steps(); }
  // The buffer's draws in step t, over all ranks or of one rank; also for a short last step.
  IndexRange buffer_draws(std::uint64_t t) const;
  IndexRange buffer_draws(std::uint64_t t, std::uint32_t rank) const;
};

struct Exemplars {
  // `weights` is empty, or has one for each; if all are 0, all exemplars are drawn alike.
  static std::shared_ptr<const Exemplars> make(std::vector<SampleId> samples,
                                               std::vector<std::uint32_t> weights = {});

  std::vector<SampleId> samples;
  std::vector<std::uint32_t> weights;  // empty: all are drawn alike
  std::vector<std::uint64_t> ends;     // the running sum of the weights
  std::vector<std::uint32_t> sorted;   // their indices, by sample
  Digest digest = 0;                   // names samples and weights, in their order; never 0
};

// The exemplars that a job has reported, and the buffer as of the last report that was complete.
class ExemplarBuffer {
 public:
  // Sets indices [first, first + samples). False, and no change: there would be a gap, or too many.
  bool report(bool anew, std::uint32_t first, std::span<const SampleId> samples, bool more);
  // The buffer as of the last report that no other was to follow; null: there is none.
  std::shared_ptr<const Exemplars> whole();

 private:
  void keep_whole();

  std::vector<SampleId> reported_;
  std::shared_ptr<const Exemplars> whole_;
  bool is_whole_ = true;  // no report is to follow that completes reported_
  bool is_kept_ = true;   // whole_ has what reported_ has
};

// The draws of one epoch. A block is B consecutive draws, made like those of a weighted order and
// for one job alone.
class Rehearsal {
 public:
  // REQUIRES: there are exemplars
  Rehearsal(std::shared_ptr<const Exemplars> exemplars, KeyRoot root, std::uint32_t epoch);

  Digest buffer() const { return exemplars_->digest; }
  // How many draws there are for one of the sample; 0: it is no exemplar, or is never drawn.
  double draws_for(SampleId sample) const;
  // The generation in its block names and draw keys.
  std::uint64_t generation() const { return hash(buffer(), epoch_); }
  // How the draws are cut into blocks, and the block that has a given draw.
  static LaneSizes sizes(std::uint32_t block_samples);
  BlockName block_of(std::uint64_t draw, std::uint32_t block_samples) const;
  // Draws first, first + 1, ...
  void fill(std::uint64_t first, std::span<Draw> out, PermutationCache& permutations) const;

 private:
  std::shared_ptr<const Exemplars> exemplars_;
  KeyRoot root_;
  std::uint32_t epoch_;
};

}  // namespace batchflow::order
