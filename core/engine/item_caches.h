// What the nodes keep of the samples of one dataset: tells which shares to look in, without a
// search.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/pool.h"
#include "core/base/types.h"
#include "core/engine/indices.h"
#include "core/engine/placement.h"

namespace batchflow::engine {

// The samples that one node keeps in one form.
struct ItemCache {
  NodeIndex node;
  Digest prefix;  // 0: encoded; else decoded, by this part of a pipeline
  // Shares, by tier; none where there is none.
  ShareId dram = ShareId::none();
  ShareId nvme = ShareId::none();
  std::vector<ShareId> gpus = {};    // of decoded samples: in the memory of each GPU
  std::vector<ShareId> shares = {};  // all of these
  std::uint32_t next = kNone;        // another of this node

  void add(Tier tier, ShareId share) {
    shares.push_back(share);
    if (tier == Tier::gpu) {
      gpus.push_back(share);
    } else {
      (tier == Tier::dram ? dram : nvme) = share;
    }
  }
};

class ItemCaches {
 public:
  const std::vector<ItemCache>& all() const { return all_; }
  // The caches of a node, one after the other.
  const ItemCache* first(NodeIndex node) const {
    return at(node.value < first_.size() ? first_[node.value] : kNone);
  }
  const ItemCache* next(const ItemCache& cache) const { return at(cache.next); }
  const ItemCache* find(NodeIndex node, Digest prefix) const {
    const ItemCache* cache = first(node);
    while (cache != nullptr && cache->prefix != prefix) cache = next(*cache);
    return cache;
  }
  // REQUIRES: there is none with this node and prefix
  void add(ItemCache cache) {
    if (first_.size() <= cache.node.value) first_.resize(cache.node.value + 1, kNone);
    cache.next = std::exchange(first_[cache.node.value], static_cast<std::uint32_t>(all_.size()));
    all_.push_back(cache);
  }
  // `cache` is one of these.
  void add_share(const ItemCache& cache, Tier tier, ShareId share) {
    all_[static_cast<std::size_t>(&cache - all_.data())].add(tier, share);
  }
  void remove_node(NodeIndex node) {
    if (first(node) == nullptr) return;
    remove_if([&](const ItemCache& cache) { return cache.node == node; });
  }
  void remove(NodeIndex node, Digest prefix) {
    remove_if([&](const ItemCache& cache) { return cache.node == node && cache.prefix == prefix; });
  }

  // The nodes that have homes for samples. None: each node keeps what it reads itself.
  const std::optional<Placement>& homes() const { return homes_; }
  void set_homes(std::optional<Placement> homes) {
    homes_ = std::move(homes);
    home_of_.clear();
  }
  // The home of a sample, as an index among the members. It is computed once for each of the first
  // samples; where items are coarse, these are all.
  // REQUIRES: homes()
  std::size_t home_of(Digest dataset_version, SampleId sample) const {
    if (sample.value >= kHomesKept) return homes_->owner_at(dataset_version, sample);
    if (home_of_.size() <= sample.value) home_of_.resize(sample.value + 1, kNotKnown);
    std::uint16_t& home = home_of_[sample.value];
    if (home == kNotKnown) {
      home = static_cast<std::uint16_t>(homes_->owner_at(dataset_version, sample));
    }
    return home;
  }
  bool homes_known = true;  // false: nodes have come since

 private:
  static constexpr std::uint64_t kHomesKept = 4096;
  static constexpr std::uint16_t kNotKnown = UINT16_MAX;

  template <class Gone>
  void remove_if(Gone gone) {
    for (const ItemCache& cache : all_) first_[cache.node.value] = kNone;
    for (const ItemCache& cache : std::exchange(all_, {})) {
      if (!gone(cache)) add(cache);
    }
  }
  const ItemCache* at(std::uint32_t index) const { return index == kNone ? nullptr : &all_[index]; }

  std::vector<ItemCache> all_;
  std::vector<std::uint32_t> first_;  // of a node
  std::optional<Placement> homes_;
  mutable std::vector<std::uint16_t> home_of_;
};

}  // namespace batchflow::engine
