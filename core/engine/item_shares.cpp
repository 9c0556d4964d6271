// The shares in which items are kept: opened and closed with nodes and pipelines, counted, purged.
#include <algorithm>

#include "core/check.h"
#include "core/engine/items.h"
#include "core/placement.h"

namespace batchflow {

const Items::Cache* Items::cache(std::uint32_t node, DatasetId dataset, Digest prefix) const {
  if (s_.nodes[node].lost) return nullptr;
  for (const Cache& cache : caches_) {
    if (cache.node == node && cache.dataset == dataset && cache.prefix == prefix) return &cache;
  }
  return nullptr;
}

void Items::open_shares(std::uint32_t node, const Dataset& dataset, const PipelineInfo& pipeline) {
  if (dataset.catalogue->samples() > kCachedSamplesMost) return;
  const auto open = [&](ShareUse use, Digest prefix, Bytes slot_bytes, Slots all) {
    if (cache(node, dataset.id, prefix)) return;
    Cache made{node, dataset.id, prefix, {}};
    for (const Tier tier : {Tier::dram, Tier::nvme}) {
      const Place place{s_.nodes[node].id, tier, 0};
      if (!s_.memory.has(place)) continue;
      const std::uint32_t share = s_.memory.add_share(
          {place, use, dataset.id, prefix, slot_bytes, dataset.catalogue->samples(), all});
      (tier == Tier::dram ? made.tiers.dram : made.tiers.nvme) = share;
    }
    caches_.push_back(made);
    if (prefix == 0) settle_homes(dataset.id);
  };
  const Catalogue& catalogue = *dataset.catalogue;
  const Bytes slot = s_.config.item_slot_bytes;
  // Each sample begins a slot: of sizes that differ at most one more is needed for each.
  const Slots encoded = catalogue.is_uniform()
                            ? catalogue.samples() * slots_for(catalogue.mean_bytes(), slot)
                            : catalogue.samples() + slots_for(catalogue.total_bytes(), slot);
  open(ShareUse::encoded, 0, slot, encoded);
  if (pipeline.decodes()) {
    open(ShareUse::decoded, pipeline.prefix_hash, pipeline.decoded_bytes, catalogue.samples());
  }
}

void Items::close_shares(std::uint32_t node) {
  for (const Cache& cache : caches_) {
    if (cache.node != node) continue;
    for (const std::uint32_t share : {cache.tiers.dram, cache.tiers.nvme}) {
      if (share == kNone) continue;
      // Makings elsewhere that used what was here lose their pins on it, not their bytes.
      for (std::uint32_t index = 0; index < s_.makings.size(); ++index) {
        if (!s_.makings.live(index)) continue;
        std::erase_if(s_.makings[index].pins,
                      [&](const ItemPin& pin) { return pin.share == share; });
      }
      s_.memory.remove_share(share);
    }
  }
  std::vector<DatasetId> datasets;
  for (const Cache& cache : caches_) {
    if (cache.node == node && cache.prefix == 0) datasets.push_back(cache.dataset);
  }
  std::erase_if(caches_, [&](const Cache& cache) { return cache.node == node; });
  for (const DatasetId dataset : datasets) settle_homes(dataset);
}

void Items::count_jobs() {
  for (const Cache& cache : caches_) {
    std::uint32_t jobs = 0;
    for (std::uint32_t index = 0; index < s_.streams.size(); ++index) {
      if (!s_.streams.live(index)) continue;
      const Stream& stream = s_.streams[index];
      const bool reads = s_.datasets[stream.dataset].id == cache.dataset &&
                         (cache.prefix == 0 || stream.pipeline->prefix_hash == cache.prefix);
      if (reads) jobs += static_cast<std::uint32_t>(stream.jobs.size());
    }
    for (const std::uint32_t share : {cache.tiers.dram, cache.tiers.nvme}) {
      if (share != kNone) s_.memory.set_jobs(share, jobs);
    }
  }
}

// The node that keeps the sample: the same answer everywhere, whoever asks.
std::uint32_t Items::home(DatasetId dataset, Digest version, SampleId sample,
                          std::uint32_t here) const {
  for (const Homes& homes : homes_) {
    if (homes.dataset == dataset)
      return s_.node_of.at(homes.placement.owner(version, sample).value);
  }
  return here;
}

// The nodes that cache the dataset have changed: a new membership epoch. Where nodes share nothing
// there are no homes: each keeps what it reads itself.
void Items::settle_homes(DatasetId dataset) {
  if (!s_.config.share_nodes) return;
  std::erase_if(homes_, [&](const Homes& homes) { return homes.dataset == dataset; });
  std::vector<NodeId> members;
  for (const Cache& cache : caches_) {
    if (cache.dataset == dataset && cache.prefix == 0) members.push_back(s_.nodes[cache.node].id);
  }
  if (members.size() > 1) homes_.push_back({dataset, Placement(++epochs_, std::move(members))});
}

bool Items::plain(const Stream& stream) const {
  if (stream.family == Order::weighted) return false;
  const Dataset& dataset = s_.datasets[stream.dataset];
  if (!dataset.corrupt.empty() || dataset.streams > 1) return false;
  for (const Cache& cache : caches_) {
    if (cache.dataset != dataset.id) continue;
    for (const std::uint32_t share : {cache.tiers.dram, cache.tiers.nvme}) {
      if (share != kNone && s_.memory[share].share->capacity() > 0) return false;
    }
  }
  return true;
}

double Items::cached(const Stream& stream) const {
  const Dataset& dataset = s_.datasets[stream.dataset];
  std::size_t encoded = 0;
  std::size_t decoded = 0;
  for (const Cache& cache : caches_) {
    if (cache.dataset != dataset.id) continue;
    if (cache.prefix != 0 && cache.prefix != stream.pipeline->prefix_hash) continue;
    for (const std::uint32_t share : {cache.tiers.dram, cache.tiers.nvme}) {
      if (share == kNone) continue;
      (cache.prefix == 0 ? encoded : decoded) += s_.memory[share].share->residents();
    }
  }
  return static_cast<double>(std::max(encoded, decoded)) /
         static_cast<double>(dataset.catalogue->samples());
}

void Items::purge(DatasetId dataset, SampleId sample) {
  const ItemId item = item_of(sample);
  for (const Cache& cache : caches_) {
    if (cache.dataset != dataset) continue;
    for (const std::uint32_t index : {cache.tiers.dram, cache.tiers.nvme}) {
      if (index == kNone) continue;
      Share& share = *s_.memory[index].share;
      // Whoever has it pinned finds out for himself.
      if (!share.resident(item) || share.pinned(item)) continue;
      share.remove(item, Removal::invalidated);
      s_.order(Drop{s_.memory[index].id, s_.memory[index].spec.place,
                    cache.prefix == 0 ? Form::encoded : Form::decoded, item});
    }
  }
}

void Items::scored(DatasetId dataset, SampleId sample, float score) {
  for (const Cache& cache : caches_) {
    if (cache.dataset != dataset) continue;
    for (const std::uint32_t index : {cache.tiers.dram, cache.tiers.nvme}) {
      if (index != kNone) s_.memory[index].share->scored(item_of(sample), score);
    }
  }
}

}  // namespace batchflow
