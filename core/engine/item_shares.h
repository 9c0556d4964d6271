// The shares in which the nodes keep samples, encoded and decoded, and which node is a sample's
// home.
//
// A sample has one home among the nodes that cache its dataset, found by rendezvous hashing without
// a message. This part opens the shares of a dataset with its nodes and pipelines, and closes them;
// it counts the jobs that read from each, and settles the homes anew when nodes come, go or change.
// Items looks samples up in these shares.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/saturating.h"
#include "core/engine/item_caches.h"
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

// The bytes of an item of such a share, as it is stored.
inline Bytes stored_bytes(const Catalogue& catalogue, const ShareSpec& spec, ItemId item) {
  return spec.bundle_shift > 0 ? catalogue.bundle_bytes(item.value)
                               : catalogue.bytes(SampleId(item.value));
}

// The slots that an item of such a share takes.
inline Slots slots_of(const Catalogue& catalogue, const ShareSpec& spec, ItemId item) {
  if (spec.prefix != 0) return 1;
  return slots_for(stored_bytes(catalogue, spec, item), spec.slot_bytes);
}

class ItemShares {
 public:
  explicit ItemShares(EngineState& state) : s_(state) {}

  const ItemCaches& caches(DatasetId dataset) const;
  // What the node keeps of a dataset, encoded or decoded by this part of a pipeline. Null: nothing.
  const ItemCache* cache(NodeIndex node, DatasetId dataset, Digest prefix) const;

  // The node that keeps the sample: its home. If nodes share nothing, that is `node` itself.
  NodeIndex home_of(const Dataset& dataset, SampleId sample, NodeIndex node) const;

  // Opens the shares of a dataset and a pipeline's prefix on a node; they exist as long as anything
  // uses them. True if they are new; then `settle` must follow.
  bool open_shares(NodeIndex node, const Dataset& dataset, const PipelineInfo& pipeline);
  void close_shares(NodeIndex node);
  // Closes those of `shares` that no job uses and that are empty.
  void close_unused(std::span<const ShareId> shares);
  // Drops what no job reads of the dataset.
  void drop_idle(const Dataset& dataset);
  // Nodes that keep the dataset have come, or jobs that read it have come or gone.
  void settle(const Dataset& dataset);
  // The capacity of a node's memory, its drive or a GPU has changed. What is new is used from now
  // on.
  void capacity_changed(Place place);
  // Nodes share what they keep from now on, or no longer do.
  void sharing_changed();

  // The homes of the dataset's samples once the nodes that take no work have ended. Nothing: no
  // node is left, or nodes share nothing.
  std::optional<Placement> homes_without_leaving(const Dataset& dataset) const;
  // The node is no home any more: it ends.
  void let_go(NodeIndex node);

  // Appends the caches of the dataset that have samples from before the engine
  // (core/engine/kept_before.h), stored or decoded by the pipeline. Such samples may have their
  // homes on other nodes.
  void find_from_before(const Dataset& dataset, const PipelineInfo& pipeline,
                        std::vector<const ItemCache*>& out) const;
  // Whether the cache has the sample, wherever; and in the memory of a GPU.
  bool has(const ItemCache& cache, SampleId sample) const;
  bool has_on_gpu(const ItemCache& cache, SampleId sample) const;
  // The share of the GPU that is to keep what is decoded next. None: no GPU keeps anything.
  ShareId gpu_for(const ItemCache& cache, std::uint64_t turn) const;
  // The slots in which nothing is.
  Slots room_in(ShareId share) const;

  // How many bytes a node can keep samples in.
  Bytes room_of(NodeId node) const;
  // How much of the dataset is cached, from 0 to 1: of the forms that the stream can use, in the
  // one that is cached most.
  double cached(const Stream& stream) const;
  // How much of the dataset the node keeps in memory as it is stored, from 0 to 1.
  double kept_on(NodeIndex node, const Dataset& dataset) const;
  // How many bytes of the stream's samples the node has for other nodes that make blocks of them.
  // Samples that it keeps both decoded and as they are stored are read decoded.
  Bytes kept_for_others(NodeIndex node, const Stream& stream) const;
  // The sum of them for all nodes; 0 where nodes share nothing.
  Bytes kept_for_others(const Stream& stream) const;
  // How many samples of the dataset all nodes together are to keep in memory, as they are stored.
  std::uint64_t samples_kept(const Dataset& dataset) const;

  // Bytes of the sample have turned out to be bad: no cache keeps them.
  void purge(DatasetId dataset, SampleId sample);
  void scored(DatasetId dataset, SampleId sample, float score);
  // Tells the shares that the job reads from.
  void epoch_began(const Job& job, std::uint32_t epoch);

 private:
  void count_jobs(const Dataset& dataset);
  template <class Leaves>
  std::vector<Placement::NodeWeight> keepers(const ItemCaches& caches, Leaves leaves) const;
  void settle_homes(ItemCaches& caches);
  ShareId begin_share(const ShareSpec& spec);
  void open_late(ItemCaches& caches, Place place);
  bool is_in(ShareId share, SampleId sample) const;

  EngineState& s_;
  std::vector<ItemCaches> caches_;  // by the dataset's index
  std::uint64_t epochs_ = 0;        // of membership
};

}  // namespace batchflow::engine
