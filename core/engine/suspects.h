// Samples that cannot be decoded: they are read again, then replaced (order rules, section 6).
//
// What a worker has made of a part stays, except for these. Each is read anew from the store and
// tried again alone. A sample that fails on two reads of its own is corrupt, and the rule names its
// replacement.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/engine/item_shares.h"
#include "core/engine/items.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class Suspects {
 public:
  Suspects(EngineState& state, Reads& reads, ItemShares& item_shares, Items& items)
      : s_(state),
        datasets_(state.datasets.writable_for(this)),
        reads_(reads),
        item_shares_(item_shares),
        items_(items) {}

  // False: the report names samples that are not in the block. Then the worker is broken, not a
  // sample.
  bool are_of_block(const Making& making, std::span<const SampleId> failed);
  // The worker could not decode these samples of the block.
  void report(MakingIndex making, std::span<const SampleId> failed);
  // Replaces the samples that are corrupt, but a keyed job is given them as they are. A failure:
  // too many samples are corrupt to this pipeline.
  std::optional<StreamFailure> replace_corrupt(Making& making);
  // Some are still to be tried again.
  static bool has_doubts(const Making& making);
  // Reads these from the store, each for this block alone, for the worker to prepare them again: as
  // many as take no more staging memory than `most`, and at least one.
  void look_again(MakingIndex making, Bytes most);

  // A sample known to be corrupt is replaced before anything is read.
  static void stand_in(const EngineState& s, Making& making, Ingredient& ingredient);
  // The sample at the index is left for the next part, and so is what stands in for it.
  static void forget_stand_in(Making& making, std::uint32_t at);

 private:
  bool mark_undecodable(MakingIndex making, SampleId sample);
  static void mark_undecodable(Making& making, const Ingredient& ingredient, bool from_store);
  std::optional<StreamFailure> declare_corrupt(const Making& making, Making::Suspect& suspect);

  EngineState& s_;
  IndexedVector<Dataset, DatasetIndex>& datasets_;
  Reads& reads_;
  ItemShares& item_shares_;
  Items& items_;
  std::vector<SampleId> ids_;       // scratch
  std::vector<order::Draw> draws_;  // scratch
};

}  // namespace batchflow::engine
