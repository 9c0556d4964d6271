// Where the bytes of samples come from when a block is made on some node: the shares in which its
// node or the sample's home keeps it (core/engine/item_shares.h), reads under way, or the source.
// What is read is let into the shares that admit it (core/engine/item_admission.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/flat_map.h"
#include "core/engine/item_admission.h"
#include "core/engine/item_caches.h"
#include "core/engine/item_shares.h"
#include "core/engine/read_groups.h"
#include "core/engine/reads.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class Items {
 public:
  Items(EngineState& state, const ItemShares& item_shares, Reads& reads)
      : s_(state), item_shares_(item_shares), reads_(reads) {}

  // Finds or reads what the making's next part is made of: the block's indices from making.next on,
  // as many as take no more staging memory than `most`, and at least one.
  // REQUIRES: making.draws are the block's
  void look_up(MakingIndex making, Bytes most);
  // The making's block is made from what KeptItems::whole() answered just now.
  void use_whole(Making& making, ShareId share);
  // The making's part is over. `well`: it is made, and what was decoded for the cache is there.
  void leave(Making& making, MakingIndex index, bool well);

  // The making cannot decode the sample, which is no longer in its share. Makings that waited for
  // it look elsewhere once this making is over.
  void give_up_decoding(MakingIndex making, SampleId sample);

 private:
  // What all samples of the block that is being looked up have in common.
  struct Around : ItemAdmission::Around {
    // A node that keeps samples. A null pointer: it does not keep that form.
    struct Home {
      NodeIndex node;
      const ItemCache* encoded;
      const ItemCache* decoded;
    };
    Bytes staged = 0;                    // of each sample, in staging memory, where all are alike
    std::uint8_t bundle_shift = 0;       // of the dataset
    const ItemCaches* placed = nullptr;  // say which home a sample has; null: there is one alone
    std::vector<Home> homes;
    // The caches with samples from before the engine (core/engine/kept_before.h), which may be on
    // other nodes than their homes: as they are stored, and as the stream decodes them.
    std::vector<const ItemCache*> from_before;
    bool under_way = false;                // samples of it may be, to this node
    std::vector<const SharePart*> likely;  // to be looked at for most samples
  };

  void release_ingredients(Making& making);
  void look_around(MakingIndex making);
  std::optional<Future::Lane> lane_of(const Block& block) const;
  void announce(const Making& making);
  void prefetch(std::span<const order::Draw> draws) const;
  Bytes staged_alone(SampleId sample) const;
  void look_up_one(MakingIndex making, std::uint32_t at);
  void set_apart(Making& making, SampleId sample);
  void pin(Making& making, ShareId share, ItemId item);
  bool use_cached(MakingIndex making, std::uint32_t at, SampleId sample, const ItemCache& cache,
                  Form form);
  bool use_from_before(MakingIndex making, std::uint32_t at, SampleId sample, NodeIndex home,
                       Form form);
  bool use_resident(MakingIndex making, std::uint32_t at, ShareId share, Form form);
  bool use_under_way(MakingIndex making, std::uint32_t at);
  bool bring_bundle(const Around::Home& home, SampleId sample);
  bool use_brought(MakingIndex making, std::uint32_t at, const Around::Home& home);
  bool admit_decoded(MakingIndex making, std::uint32_t at, const ItemCache& cache);
  bool admit_decoded(MakingIndex making, std::uint32_t at, ShareId share);
  void send_groups(MakingIndex making);
  void retry_without(Making& making, const Making& failed);
  void look_up_again(MakingIndex making);
  void share_firsts(Making& making);

  EngineState& s_;
  const ItemShares& item_shares_;
  Reads& reads_;
  ItemAdmission admission_{s_};
  ReadGroups groups_;
  Around around_;
  Bytes staging_most_ = 0;  // that the part which is looked up may take
  Bytes staging_taken_ = 0;
  FlatMap new_bundles_;  // that the part lets in: their first ingredients
  // Bundles that their homes on other nodes read for the part, by home.
  struct Brought {
    std::uint32_t home = 0;  // of around_.homes
    std::vector<SampleId> firsts;
    Bytes staged = 0;
  };
  std::vector<Brought> brought_;
  FlatMap brought_by_;                                           // the index in it, by bundle
  std::vector<std::pair<std::uint32_t, std::uint32_t>> firsts_;  // scratch
  FirstIndices first_indices_;                                   // scratch
};

}  // namespace batchflow::engine
