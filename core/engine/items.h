// The caches of samples: encoded and decoded items, each in shares of the places of its home node.
//
// A sample has one home among the nodes that cache its dataset, found by rendezvous hashing without
// a message. This part says where the bytes of a sample come from when a block is made on some
// node, lets what is read into the shares that admit it, and commands the reads.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/flat_map.h"
#include "core/base/saturating.h"
#include "core/engine/future.h"
#include "core/engine/item_caches.h"
#include "core/engine/read_groups.h"
#include "core/engine/reads.h"
#include "core/engine/state.h"

namespace batchflow::engine {

// No share has more items than this, because policies keep some bytes for each id. Samples of a
// larger dataset have to come in bundles.
inline constexpr std::uint64_t kCachedItemsMost = std::uint64_t{1} << 30;

// A share counts no larger items: they are read anew each time.
inline constexpr Slots kItemSlotsMost = UINT32_MAX;

inline Slots slots_for(Bytes bytes, Bytes slot_bytes) {
  if (bytes <= slot_bytes) return 1;  // without a division
  return bytes / slot_bytes + (bytes % slot_bytes != 0 ? 1 : 0);
}

class Items {
 public:
  Items(EngineState& state, Reads& reads) : s_(state), reads_(reads) {}

  // Opens the shares of a dataset and a pipeline's prefix on a node; they exist as long as anything
  // uses them. True if they are new; then `settle` must follow.
  bool open_shares(NodeIndex node, const Dataset& dataset, const PipelineInfo& pipeline);
  void close_shares(NodeIndex node);
  // The capacity of a node's memory or drive has changed. A drive that is new is used from now on.
  void capacity_changed(Place place);
  // Nodes share what they keep from now on, or no longer do.
  void sharing_changed();
  // How many bytes a node can keep samples in.
  Bytes room_of(NodeId node) const {
    return saturating_sum(s_.memory.capacity({node, Tier::dram, 0}),
                          s_.memory.capacity({node, Tier::nvme, 0}));
  }
  // Closes those of `shares` that no job uses and that are empty.
  void close_unused(std::span<const ShareId> shares);
  // Drops what no job reads of the dataset.
  void drop_idle(const Dataset& dataset);
  // Nodes that keep the dataset have come, or jobs that read it have come or gone.
  void settle(const Dataset& dataset);

  // The homes of the dataset's samples once the nodes that take no work have ended. Nothing: no
  // node is left, or nodes share nothing.
  std::optional<Placement> homes_without_leaving(const Dataset& dataset) const;
  // The node is no home any more: it ends.
  void let_go(NodeIndex node);

  // Finds or reads what the making's next part is made of: the block's indices from making.next on,
  // as many as take no more staging memory than `most`, and at least one.
  // REQUIRES: making.draws are the block's
  void look_up(MakingIndex making, Bytes most);
  // True if `look_up` need not know the ids: nothing can be cached, shared or corrupt.
  bool plain(const Stream& stream) const;
  // The share on the node that keeps every sample of the stream as it is stored, so that no sample
  // of a block need be looked up. None: there is no such share.
  ShareId kept_whole(const Stream& stream, NodeIndex node) const;
  // The making's block is made from what kept_whole() answered just now.
  void use_whole(Making& making, ShareId share);
  // How much of the dataset is cached, from 0 to 1: of the forms that the stream can use, in the
  // one that is cached most.
  double cached(const Stream& stream) const;

  // How much of the dataset the node keeps in memory as it is stored, from 0 to 1.
  double kept_on(NodeIndex node, const Dataset& dataset) const;

  // How many samples of the dataset all nodes together are to keep in memory, as they are stored.
  std::uint64_t samples_kept(const Dataset& dataset) const;

  // What is kept of these samples where blocks of the stream that are made on the node look.
  void show(const Stream& stream, NodeIndex node,
            std::span<const order::ChosenEpoch::Candidate> candidates,
            std::vector<SampleCandidate>& out) const;

  const ItemCaches& caches(DatasetId dataset) const;
  // What the node keeps of a dataset, encoded or decoded by this part of a pipeline. Null: nothing.
  const ItemCache* cache(NodeIndex node, DatasetId dataset, Digest prefix) const;

  // The making's part is over. `well`: it is made, and what was decoded for the cache is there.
  void leave(Making& making, MakingIndex index, bool well);

  // The making cannot decode the sample, which is no longer in its share. Makings that waited for
  // it look elsewhere once this making is over.
  void give_up_decoding(MakingIndex making, SampleId sample);

  // Bytes of the sample have turned out to be bad: no cache keeps them.
  void purge(DatasetId dataset, SampleId sample);

  void scored(DatasetId dataset, SampleId sample, float score);
  // The shares that the job reads from are told.
  void epoch_began(const Job& job, std::uint32_t epoch);

 private:
  // What all samples of the block that is being looked up have in common.
  struct Around {
    // A node that keeps samples. A null pointer: it does not keep that form.
    struct Home {
      NodeIndex node;
      const ItemCache* encoded;
      const ItemCache* decoded;
    };
    const Dataset* dataset = nullptr;
    // Of each sample, as stored and in staging memory, where all are alike; 0: as the catalogue
    // says.
    Bytes bytes = 0;
    Bytes staged = 0;
    std::uint8_t bundle_shift = 0;       // of the dataset
    const ItemCaches* placed = nullptr;  // say which home a sample has; null: there is one alone
    std::vector<Home> homes;
    bool runs = false;                     // the block's runs are bundles
    bool under_way = false;                // samples of it may be, to this node
    bool foretold = false;                 // when this node comes to a sample can be known
    bool foreseen = false;                 // and its stream's order tells it
    JobId job = JobId::none();             // that the block is made for
    std::vector<const SharePart*> likely;  // to be looked at for most samples
  };

  void release_ingredients(Making& making);
  void look_around(MakingIndex making);
  void announce(const Making& making);
  void prefetch(std::span<const order::Draw> draws) const;
  Bytes stored_bytes(SampleId sample) const;
  Bytes staged_alone(SampleId sample) const;
  void look_up_one(MakingIndex making, std::uint32_t at);
  void set_apart(Making& making, SampleId sample);
  void pin(Making& making, ShareId share, ItemId item);
  bool use_cached(MakingIndex making, std::uint32_t at, SampleId sample, const ItemCache& cache,
                  Form form);
  bool use_resident(MakingIndex making, std::uint32_t at, ShareId share, Form form);
  bool use_under_way(MakingIndex making, std::uint32_t at);
  bool bring_bundle(const Around::Home& home, SampleId sample);
  bool use_brought(MakingIndex making, std::uint32_t at, const Around::Home& home);
  // `staging`: what is left of it on the node that reads the bundle.
  bool admit_bundle(const ItemCache& cache, SampleId sample, Bytes staging);
  engine::Access access_to(const SharePart& part, ItemId item, SampleId sample, Slots slots);
  ShareId admit_encoded(const ItemCache& cache, SampleId sample, bool kept_decoded);
  bool admit_decoded(MakingIndex making, std::uint32_t at, const ItemCache& cache);
  bool admit(ShareId share, const Access& access);
  std::uint64_t next_use(const SharePart& part, SampleId sample);
  void follow(const SharePart& part, const Access& access, bool hit);
  void send_groups(MakingIndex making);
  void count_jobs(const Dataset& dataset);
  template <class Leaves>
  std::vector<Placement::Weighed> keepers(const ItemCaches& caches, Leaves leaves) const;
  void settle_homes(ItemCaches& caches);
  void open_drive(ItemCaches& caches, NodeIndex node);
  void retry_without(Making& making, const Making& failed);
  void look_up_again(MakingIndex making);
  void share_firsts(Making& making);

  EngineState& s_;
  Reads& reads_;
  Future future_{s_};
  std::array<std::optional<std::uint64_t>, 2> next_uses_;  // of the sample: as stored, decoded
  std::vector<ItemCaches> caches_;                         // by the dataset's index
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
  std::uint64_t epochs_ = 0;                                     // of membership
  std::vector<std::pair<std::uint32_t, std::uint32_t>> firsts_;  // scratch
  FirstIndices first_indices_;                                   // scratch
  std::vector<ItemId> gone_;                                     // scratch
};

}  // namespace batchflow::engine
