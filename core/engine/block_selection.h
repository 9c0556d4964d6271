// Which block a job takes next, and of which samples a block is made if the policy chooses them.
//
// The order says which blocks a job may take, the selection policy which of them it takes. This
// part leaves out what a position could not hold, prefers what is on the node, asks the policy and
// checks its choice.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/engine/kept_items.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class BlockSelection {
 public:
  BlockSelection(EngineState& state, const KeptItems& kept_items,
                 std::unique_ptr<SelectionPolicy> policy)
      : s_(state), kept_items_(kept_items) {
    change(std::move(policy));
  }

  const SelectionPolicy& policy() const { return *policy_; }
  // The policy of all jobs from now on: streams lose the policies of their own.
  void change(std::unique_ptr<SelectionPolicy> policy) {
    policy_ = std::move(policy);
    s_.streams.each([&](StreamId stream) { s_.streams[stream].own_selection.reset(); });
  }
  // What is chosen for the ranks on the node, or for all ranks if `node` is none; null: nothing
  // yet. The answer is valid until the next call.
  const order::Lanes::Candidate* choose(Job& job, const EpochRun& run, NodeId node);
  // Whether no further lane may be begun, or no further block used in part.
  static bool is_full(const EpochRun& run);
  std::uint64_t refused() const { return refused_; }
  // Jobs that the policy lets wait though the oldest of their blocks is ready, and since when.
  struct Held {
    JobIndex job;
    JobId id;
    Instant since;
    std::vector<SelectionCandidate> shown;  // since then
  };
  // Calls visit(held) for each.
  template <class Visit>
  void each_held(Visit visit) const {
    for (const Held& one : held_) {
      if (s_.jobs.live(one.job) && s_.jobs[one.job].id == one.id) visit(one);
    }
  }

  bool chooses_samples() const { return policy_->blocks_to_choose_from() > 0; }
  // Chooses the samples of the block, and of those before it in the job's epoch, unless they are
  // chosen. The block is about to be made on the node.
  void choose_samples(Job& job, const Block& block, NodeIndex node);
  // The weights of these scores, which the job has reported. Valid until the next call.
  std::span<const float> weigh(const Job& job, std::span<const Score> scores);
  void epoch_began(const Job& job, std::uint32_t epoch) {
    policy_of(job).epoch_began(job.id, epoch);
  }
  // The job's epochs before this one are committed.
  static void forget_chosen(Job& job, std::uint32_t epoch);

 private:
  void prefer_begun(const EpochRun& run);
  void prefer_local(NodeId node);
  SelectionPolicy& policy_of(const Job& job) const {
    const auto& own = s_.streams[job.stream].own_selection;
    return own ? *own->policy : *policy_;
  }
  void refuse(const Job& job);
  std::size_t chosen(Job& job);
  void note_held(const Job& job, bool held);
  order::ChosenEpoch& chosen_epoch(Job& job, std::uint32_t epoch) const;
  void check_picks(const Job& job, std::size_t offered);

  EngineState& s_;
  const KeptItems& kept_items_;
  std::unique_ptr<SelectionPolicy> policy_;
  std::uint64_t refused_ = 0;
  std::vector<Held> held_;  // jobs that were let wait when they were looked at last
  std::vector<order::Lanes::Candidate> found_;  // scratch
  std::vector<SelectionCandidate> views_;       // scratch
  std::vector<SampleCandidate> samples_;        // scratch
  std::vector<std::uint32_t> picks_;            // scratch
  std::vector<bool> picked_;                    // scratch
  std::vector<float> scores_;                   // scratch
  std::vector<float> weights_;                  // scratch
};

}  // namespace batchflow::engine
