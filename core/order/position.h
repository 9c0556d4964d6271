// Where a job is in its data: all that it needs to go on from its last committed step, at any
// number of ranks and any batch size, in a service that knows nothing of it.
//
// The engine keeps one for each job, of what is committed. A client makes one from the slices that
// it has returned, so that its state survives the loss of the service. A position counts samples in
// any order. In the relaxed order it also remembers which lanes, blocks and parts of blocks the
// epoch has had. It checks each slice: one that was had before, is of another generation or comes
// out of turn is refused. It also counts what was rehearsed in the epoch, and names the buffer.
//
// Where a policy chooses the samples of a relaxed job (core/order/chosen.h), there are no lanes.
// The job has had all indices of the epoch's permutation up to its last one, but for those that
// were left out.
//
// In a live order, it has the record that the epoch began with, and how many records the job has
// had from there on. What filled its steps counts as rehearsed (core/order/live_epoch.h).
//
// In a mixture, it has all that the draws follow from (core/order/mixing.h).
//
// It has two forms: compact bytes for the promise log (position_bytes.h), and JSON for a
// framework's checkpoint (position_json.h). Both readers take bytes from any source, and accept
// only a position that a job can really be at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/types.h"
#include "core/order/block_name.h"
#include "core/order/chosen.h"
#include "core/order/lane_position.h"
#include "core/order/mixing.h"

namespace batchflow::order {

class Position {
 public:
  static constexpr std::size_t kOpenLanesMost = 64;
  static constexpr std::uint32_t kPassesMost = 254;     // of a lane in one generation
  static constexpr std::size_t kPartBlocksMost = 1024;  // used partly, at once
  static constexpr std::size_t kLeftOutMost = kChosenCandidatesMost;

  // A block of an open lane. Its first `used` samples have been had.
  struct PartBlock {
    std::uint32_t lane = 0;
    std::uint32_t block = 0;
    std::uint32_t used = 0;
  };

  // The parts of a position. Relaxed: `lanes.sizes.samples` is 0 until the first generation begins.
  // A lane is in `lanes.open` from its first sample on, even if none of its blocks has been had as
  // a whole. Weighted: `draws` is 0 until the first epoch's weights are known.
  struct Fields {
    Order order = Order::strict;
    Digest dataset_version = 0;  // D
    std::uint64_t samples = 0;   // N
    std::uint64_t seed = 0;      // S
    std::uint32_t epoch = 0;
    std::uint64_t consumed = 0;          // in this epoch, fillers apart
    LanePosition lanes;                  // relaxed
    std::vector<PartBlock> part_blocks;  // relaxed
    bool chosen = false;                 // relaxed, of samples that a policy chooses: no lanes
    // Chosen: the indices of the epoch's permutation that were not had, below the last one that
    // was. Ascending.
    std::vector<std::uint64_t> left_out;
    Digest weights = 0;            // weighted
    std::uint64_t draws = 0;       // weighted, mixed: M
    Digest buffer = 0;             // what the last step rehearsed from; 0: nothing
    std::uint64_t rehearsed = 0;   // draws that the epoch has had, from any buffer
    std::optional<Mixing> mixing;  // mixed
    std::uint64_t first = 0;       // live: the record that the epoch begins with

    // How much the epoch can have at most.
    std::uint64_t consumed_most() const;
    // Null: no part of the block was used.
    const PartBlock* find_part(std::uint32_t lane, std::uint32_t block) const;
    PartBlock* find_part(std::uint32_t lane, std::uint32_t block) {
      return const_cast<PartBlock*>(std::as_const(*this).find_part(lane, block));
    }
  };

  Position() = default;
  // At the beginning of an epoch.
  Position(Order order, Digest dataset_version, std::uint64_t samples, std::uint64_t seed,
           std::uint32_t epoch = 0);
  // The same of a relaxed job of which a policy chooses the samples.
  static Position chosen(Digest dataset_version, std::uint64_t samples, std::uint64_t seed,
                         std::uint32_t epoch = 0);
  // Of a mixture, in epochs of so many draws. REQUIRES: 0 < draws <= kSamplesMost
  static Position mixed(Mixing mixing, Digest dataset_version, std::uint64_t samples,
                        std::uint64_t seed, std::uint64_t draws);
  // Of a source that grows to at most `samples` records, from record `first` on.
  // REQUIRES: first <= samples <= kSamplesMost
  static Position live(Digest dataset_version, std::uint64_t samples, std::uint64_t seed,
                       std::uint64_t first);
  // Empty, with the reason in `problem`, when no job can be at this position.
  static std::optional<Position> from(Fields fields, std::string& problem);

  const Fields& fields() const { return fields_; }
  Order order() const { return fields_.order; }
  std::uint32_t epoch() const { return fields_.epoch; }
  std::uint64_t consumed() const { return fields_.consumed; }
  // Live: the record that comes next.
  std::uint64_t next_record() const { return fields_.first + fields_.consumed; }
  // Samples, or draws, in the whole epoch; of a live one, as many as there can be.
  std::uint64_t epoch_samples() const;
  bool has_generation() const { return fields_.lanes.sizes.samples != 0; }
  const LanePosition& lanes() const { return fields_.lanes; }
  bool is_chosen() const { return fields_.chosen; }
  // Partly used blocks, which the job finishes first when it goes on.
  std::span<const PartBlock> part_blocks() const { return fields_.part_blocks; }
  // How many samples of a block of the current generation and epoch have been had.
  // REQUIRES: relaxed, the block exists
  std::uint32_t samples_had(std::uint32_t lane, std::uint32_t block) const;

  // How many samples of the slice were had before with the same draws, if blocks have these sizes.
  // Drawn orders and rehearsal number each visit of a sample, so there it is 0.
  std::uint32_t repeats(const Slice& slice, const LaneSizes& sizes) const;

  // Applies a committed step. Blocks may come in any order and partly, but the parts of a block
  // must come in turn. Fillers are ignored. Answers what is wrong, or nothing; the slices before
  // the wrong one are applied. Where samples are chosen, `indices` are those of all samples of the
  // slices, but for fillers and rehearsed ones, in the epoch's permutation, ascending.
  [[nodiscard]] std::string apply(std::span<const Slice> slices,
                                  std::span<const std::uint64_t> indices = {});
  // The epoch is over (its tail may have been left out).
  void finish_epoch();
  // REQUIRES: relaxed, at the beginning of an epoch, a greater generation than the last
  void begin_generation(std::uint64_t generation, std::uint32_t block_samples,
                        std::uint32_t lane_blocks);
  // The epoch consists of this many draws from these weights. With other weights than before it
  // begins again. REQUIRES: weighted
  void begin_draws(Digest weights, std::uint64_t draws);
  // Mixed: from a later draw on other weights hold. Answers what is wrong with them, or nothing.
  [[nodiscard]] std::string change(MixtureChange change);
  // What the next step rehearses from; 0: nothing. False: the order has no rehearsal.
  [[nodiscard]] bool rehearse(Digest buffer);

  // Why a job with this data and seed cannot go on from here, with both values; empty: it can.
  std::string mismatch(Digest dataset_version, std::uint64_t samples, std::uint64_t seed) const;

 private:
  std::string apply_one(const Slice& slice);
  std::string apply_relaxed(const Slice& slice);
  std::string apply_rehearsed(const Slice& slice);
  std::string take(std::span<const Slice> slices, std::span<const std::uint64_t> indices);
  void use(const Slice& slice);

  Fields fields_;
};

}  // namespace batchflow::order
