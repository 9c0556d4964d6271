// A share of a place, with what it was promised and what it is for, as plain data.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/rates.h"
#include "core/base/types.h"
#include "core/engine/catalogue.h"
#include "core/engine/indices.h"
#include "core/engine/policy_list.h"
#include "core/engine/policy_shadow.h"
#include "core/engine/shadow_cache.h"
#include "core/engine/share.h"

namespace batchflow::engine {

enum class ShareUse : std::uint8_t { encoded, decoded, blocks, batches };

// What a share is for, and in what units it counts.
struct ShareSpec {
  Place place;
  ShareUse use = ShareUse::blocks;
  DatasetId dataset;
  Digest prefix = 0;  // decoded: hash of the pipeline's deterministic prefix
  Bytes slot_bytes = 1;
  std::size_t items = 0;  // the universe of dense ids; 0: as many as it has slots, and one
  Slots slots_all = 0;    // what everything that could be kept in it would take
  // Encoded, in memory: an item is a bundle of 2^bundle_shift samples that lie side by side.
  std::uint8_t bundle_shift = 0;

  // REQUIRES: encoded or decoded
  ItemId item_of(SampleId sample) const { return engine::item_of(sample, bundle_shift); }
};

struct SharePart {
  // Whether the share's policy is told next uses, which takes a look into the order of each job. A
  // share with room for all that may come to it evicts nothing, and needs none. `homes`: how many
  // shares the items are dealt to by hashes; a quarter is left for chance. A share that has to
  // evict all the same does so without next uses.
  bool wants_next_uses(std::size_t homes) const {
    const PolicyEntry& policy = *choice->entry;
    if (!policy.next_uses && !policy.clairvoyant) return false;
    const Slots all = homes == 1 ? spec.slots_all : spec.slots_all / homes * 5 / 4;
    return share->capacity() < all;
  }

  ShareSpec spec;
  std::shared_ptr<ItemNumbers> numbers;  // that the share gives; null: its items are few
  std::unique_ptr<Share> share;
  std::unique_ptr<ShadowCache> shadow;                    // of samples that are kept alone
  std::vector<std::unique_ptr<PolicyShadow>> candidates;  // that might decide in the policy's place
  Slots least = 0;                                        // promised: reserves and one preparation
  Slots target = 0;              // what the allocation policy wants, raised to `least`
  std::uint32_t jobs = 0;        // that read from it
  std::uint64_t idle_since = 0;  // when the last of them left, counted; 0: none ever read
  Slots ahead = 0;               // that workers of single jobs fill
  std::uint32_t ranks = 0;
  // Rates a second, and the counts at the last plan, from which they follow.
  HeldMean requests;
  HeldMean hits;
  std::uint64_t requests_seen = 0;
  std::uint64_t hits_seen = 0;
  Instant seen{};
  StreamId stream = StreamId::none();  // of blocks: the stream that they belong to
  Slots needed = 0;                    // and how many that are here some job has yet to take
  Slots needed_most = 0;               // since the last plan
  std::uint64_t policy_changes = 0;
  // A policy may go on reading its parameters: they stay as long as the policy does.
  std::shared_ptr<const PolicyChoice> choice;
  std::shared_ptr<const PolicyChoice> own_choice;  // not that of all such shares; or null
  std::shared_ptr<const PolicyChoice> incoming_choice;
  // Shares of blocks and batches: ids come from a pool, and each resident has a slot.
  std::vector<ItemId> free_items;
  std::vector<SlotId> free_slots;
  std::vector<SlotId> slot_of;
  std::vector<BlockIndex> owner_of;  // the block that an item is; none: a batch, or nothing
  std::uint32_t slots_made = 0;

  void reset() { *this = SharePart(); }
};

// A resident of a share, with all its names.
struct Resident {
  ShareId share;
  ItemId item;
  BlockIndex owner = BlockIndex::none();  // the block that it is; none: a batch
  SlotId slot = SlotId::none();
};

inline bool of_blocks(ShareUse use) {
  return use == ShareUse::blocks || use == ShareUse::batches;
}

inline Form form_of(ShareUse use) {
  switch (use) {
    case ShareUse::encoded:
      return Form::encoded;
    case ShareUse::decoded:
      return Form::decoded;
    default:
      return Form::prepared;
  }
}
// Which of the choices of PolicyTexts::eviction is for the share.
inline std::size_t eviction_of(const ShareSpec& spec) {
  if (spec.place.tier == Tier::gpu) return kOnGpus;
  return spec.place.tier == Tier::nvme ? kOnDrives : static_cast<std::size_t>(form_of(spec.use));
}

}  // namespace batchflow::engine
