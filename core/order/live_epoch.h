// An epoch of a source that grows: which records its steps have (docs/order.md, "Live").
//
// A step is decided when it is known what it has: the next records in the order of their arrival,
// and fills where too few have come. Its indices then have these draws, whatever comes later. What
// was decided is remembered until it is committed. A job that goes on from a position decides anew
// from there, at any number of ranks: records that no committed step had come again.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "core/order/block_name.h"
#include "core/order/drawn_epoch.h"
#include "core/order/keys.h"
#include "core/order/lane_sizes.h"
#include "core/order/reservoir.h"
#include "core/order/step_plan.h"

namespace batchflow::order {

// The records that a source may have. Their ids fit into 32 bits.
inline constexpr std::uint64_t kLiveRecordsMost = UINT32_MAX;
// The blocks that one generation of a job may have.
inline constexpr std::uint32_t kLiveBlocksMost = 1 << 28;

// The blocks of a rank's batch, which one message names.
inline constexpr std::uint32_t kLiveBlocksOfBatchMost = 1000;

// A block lies in one rank's batch, so that no step waits for records of the next: the largest
// block of at most `most` samples that cuts a batch evenly. Where a batch has too many of these, as
// one of a large prime number of samples has, it is a larger one, up to kBlockSamplesMost.
constexpr std::uint32_t live_block_samples(std::uint32_t batch_samples, std::uint32_t most) {
  std::uint32_t block = batch_samples < most ? batch_samples : most;
  while (block > 1 && batch_samples % block != 0) --block;
  if (block == 0) block = 1;
  for (std::uint32_t larger = block + 1;
       batch_samples / block > kLiveBlocksOfBatchMost && larger <= kBlockSamplesMost; ++larger) {
    if (batch_samples % larger == 0) block = larger;
  }
  return block;
}

// Where the fills of a live job come from.
struct Filling {
  std::uint64_t window = 0;  // from the last so many records
  // Once there is a record to fill with, so many of each rank's batch are fills, however many
  // records have come.
  std::uint32_t rehearsed = 0;
  // Instead of the window: from a reservoir of so many records, of all that the job has had since
  // this one.
  std::uint32_t exemplars = 0;
  std::uint64_t first = 0;
};

class LiveEpoch final : public DrawnEpoch {
 public:
  // The job has had all records before `next` that it will have, and `fills` fills. Step t is
  // indices [t * W * b, (t + 1) * W * b). `generation` tells its blocks from those of the job's
  // epochs before. REQUIRES: filling.rehearsed < batch_samples
  LiveEpoch(KeyRoot root, std::uint64_t generation, std::uint64_t next, std::uint64_t fills,
            std::uint32_t ranks, std::uint32_t batch_samples, const Filling& filling);

  std::uint64_t generation() const override { return generation_; }
  bool has(std::uint64_t first) const override;
  // Also of indices behind the end of the last step, with which its last block is filled up.
  void fill(std::uint64_t first, std::span<Draw> out) override;

  std::uint64_t step_samples() const { return std::uint64_t{ranks_} * batch_samples_; }
  // How many steps are decided, from the beginning on.
  std::uint64_t steps() const { return forgotten_ + steps_.size(); }
  // The record that comes next, and how many fills there were: of the steps that are decided.
  std::uint64_t next() const { return next_; }
  std::uint64_t fills() const { return fills_; }
  bool has_ended() const { return ended_; }

  // The reservoir is shown the records that the job has had, but at most so many at once. True: it
  // has been shown all, and the next step may be decided.
  bool settle(std::uint64_t most) { return !reservoir_ || reservoir_->show(next_, most); }
  // Whether the next step can be filled: with records from `oldest` on that are still there, or
  // with the step's `own` records.
  bool can_fill(std::uint64_t oldest, std::uint64_t own = 0) const;
  // How many records the next step has where enough have come: what it rehearses leaves room for
  // so many.
  std::uint64_t records_most(std::uint64_t oldest) const;
  // The next step has `records` records, spread evenly over the ranks, and fills from the records
  // before these, from `oldest` on. Where there are none, its own records fill it.
  // REQUIRES: it is settled, records <= records_most(oldest), and can_fill(oldest, records) where
  // these are fewer than step_samples()
  void decide(std::uint64_t records, std::uint64_t oldest);
  // The last step has `records` records, fewer than a step, and no fills. REQUIRES: not has_ended()
  void end(std::uint64_t records);
  // The first index behind the last record. REQUIRES: has_ended()
  std::uint64_t end_index() const { return end_index_; }

  // What stands before this index is not asked for again.
  void forget(std::uint64_t before);
  // Cuts a slice that begins at this index into records and fills, which it marks as rehearsed.
  void split(std::uint64_t first, const Slice& slice, std::vector<Slice>& out) const;

 private:
  struct Step {
    std::uint64_t first_record = 0;
    std::uint64_t records = 0;
    std::uint64_t first_fill = 0;
    std::uint64_t fill_from = 0;  // fills are records [fill_from, fill_to); none: it has no fills
    std::uint64_t fill_to = 0;
    std::vector<std::uint32_t> drawn = {};  // from a reservoir: the fills themselves
  };
  // Where an index is: which record, or which fill.
  struct At {
    const Step* step;
    bool is_fill;
    std::uint64_t number;
  };
  At at(std::uint64_t index) const;
  bool is_fill(std::uint64_t index) const { return at(index).is_fill; }
  std::vector<std::uint32_t> drawn_now(std::uint64_t fills) const;
  std::uint64_t filled_with(const Step& step, std::uint64_t fill) const;

  KeyRoot root_;
  std::uint64_t generation_;
  std::uint64_t next_;
  std::uint64_t fills_;
  std::uint32_t ranks_;
  std::uint32_t batch_samples_;
  std::uint64_t window_;
  std::uint32_t rehearsed_;
  std::optional<Reservoir> reservoir_;  // as of the next step
  std::uint64_t forgotten_ = 0;         // steps
  std::deque<Step> steps_;              // decided, and not forgotten
  bool ended_ = false;
  std::uint64_t end_index_ = 0;
};

}  // namespace batchflow::order
