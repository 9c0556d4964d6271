// Proves exactly once from the outside: it sees the ids ranks were handed, which steps they
// consumed, and what jobs asked for; never the engine or its counters.
//
// A run is one job over all its incarnations: losses, resizes and restarts included. A step counts
// when all ranks of it have consumed it. Then, of the steps that count: every epoch has each sample
// once (but for a tail that is left out), all ranks had equally many, fillers are flagged and few,
// a strict job had its sequence and no other, no draw was used twice, and corrupt samples, and only
// they, were replaced by the sample that the rule names. What is rehearsed stands last in each
// batch, as much as was asked for, and keeps the promise of its buffer. Anything else throws a
// Violation.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/order/permutation.h"
#include "tests/driver/buffer_check.h"
#include "tests/driver/live_check.h"
#include "tests/driver/locality_check.h"
#include "tests/driver/mixture_check.h"
#include "tests/driver/rehearsal_check.h"
#include "tests/driver/scenario.h"
#include "tests/driver/weighted_check.h"

namespace batchflow::test {

// One sample of a batch as a rank was handed it.
struct Handed {
  SampleId visited;
  SampleId used;  // another one, if the visited is corrupt
  std::uint64_t generation = 0;
  std::uint32_t pass = 0;
  std::uint64_t occurrence = 0;  // of draws: which of the epoch's visits of the sample it is
  bool filler = false;
  bool replaced = false;
  bool rehearsed = false;
  std::uint32_t lane = 0;
  std::uint32_t block = 0;
  std::uint32_t block_samples = 0;  // in that block
  std::uint64_t lane_samples = 0;   // in its lane; of node-local jobs
  std::uint32_t index = 0;          // in it
};

// What it has seen, of one job or several.
struct Counts {
  std::uint64_t counted_steps = 0;
  std::uint64_t voided_samples = 0;  // of weighted epochs that had to begin again
  std::uint64_t fillers = 0;
  std::uint64_t replaced = 0;
  std::uint64_t rehearsed = 0;
  std::uint64_t cut = 0;  // node-local: samples that went to another node than their block

  void add(const Counts& other);
};

class Checker {
 public:
  Checker(const JobPlan& plan, const DatasetPlan& dataset);
  // At the beginning; `seed`: of its seed group, by the rules of the order.
  void begins(std::uint64_t seed);

  // Of a live job: what its source has.
  void begins_live(std::uint64_t first, std::uint64_t end, bool ended);

  // It goes on from the last step that counts, with ranks on these nodes; `anew`: in a service that
  // may know nothing of it.
  void began(const std::vector<NodeId>& ranks, std::uint32_t batch_samples, bool anew);
  // The job reports a score; it counts for weighted epochs that begin from here on.
  void scored(SampleId sample, float score);
  // Null, unless the job has a mixture.
  MixtureCheck* mixture() { return mixture_.get(); }
  LiveCheck* live() { return live_.get(); }  // null, unless it is live
  // What the job tells of its buffer.
  RehearsalCheck& rehearsal() { return rehearsal_; }
  // The engine fills the job's buffer, and no other job's samples come into it.
  void has_buffer(std::uint64_t buffer);
  void handed(Rank rank, std::uint64_t step, std::uint32_t epoch, bool last_of_epoch,
              std::vector<Handed> samples);
  void consumed(Rank rank, std::uint64_t step);
  // What the engine says of an epoch.
  void epoch_ended(std::uint32_t epoch, std::uint64_t samples);
  // The job says it is done.
  void finished();

  std::uint32_t epoch() const { return epoch_; }
  std::uint64_t in_epoch() const { return in_epoch_; }
  bool may_have_nothing_to_draw() const { return weighted_ && weighted_->may_be_empty(); }
  const Counts& counts() const { return counts_; }

 private:
  struct Batch {
    std::uint32_t epoch = 0;
    bool last = false;
    bool consumed = false;
    std::vector<Handed> samples;
  };
  using Step = std::vector<std::optional<Batch>>;  // a rank

  void count(const Step& step);
  void count_live(const Step& step);
  void count_rehearsed(const Step& step);
  void restart_if_anew(const Handed& first);
  void count_sample(const Handed& sample);
  void count_draw(const Handed& sample);
  void check_replacement(const Handed& sample);
  void check_shape(const Step& step);
  void check_fillers(const Step& step, std::uint64_t own);
  bool is_over(std::uint64_t samples) const;
  void end_epoch();

  const JobPlan plan_;
  const DatasetPlan& dataset_;
  std::uint64_t seed_ = 0;
  std::size_t ranks_ = 0;
  std::uint32_t batch_samples_ = 0;
  std::uint32_t plain_samples_ = 0;  // of these, as far as is known: m less where it is rehearsed
  std::map<std::uint64_t, Step> steps_;  // not all consumed
  Counts counts_;
  std::uint32_t epoch_ = 0;
  std::uint32_t ended_ = 0;     // epochs the engine called ended
  std::uint64_t in_epoch_ = 0;  // samples that count, fillers apart
  bool tail_seen_ = false;
  bool may_restart_ = false;     // the next step that counts may be the first of its epoch, again
  std::uint64_t epoch_samples_;  // N, or the draws of an epoch
  std::vector<bool> seen_;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> last_draw_;  // a sample: (g + 1, r)
  std::unordered_set<std::uint64_t> draws_;                         // keys of all that was drawn
  RehearsalCheck rehearsal_;
  std::unique_ptr<BufferCheck> buffer_;
  std::unique_ptr<LocalityCheck> locality_;
  std::unique_ptr<WeightedCheck> weighted_;
  std::unique_ptr<MixtureCheck> mixture_;
  std::unique_ptr<LiveCheck> live_;
  std::unique_ptr<order::Permutation> sequence_;
  std::uint32_t sequence_epoch_ = UINT32_MAX;
};

}  // namespace batchflow::test
