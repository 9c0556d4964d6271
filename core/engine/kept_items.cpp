#include "core/engine/kept_items.h"

namespace batchflow::engine {

bool KeptItems::plain(const Stream& stream) const {
  if (!stream.names_samples()) return false;
  const Dataset& dataset = s_.datasets[stream.dataset];
  if (!dataset.corrupt_by(stream.pipeline_id).empty() || dataset.streams.size() > 1) return false;
  for (const ItemCache& cache : item_shares_.caches(dataset.id).all()) {
    for (const ShareId share : cache.shares) {
      if (s_.memory[share].share->capacity() > 0) return false;
    }
  }
  return true;
}

// None: they are not all in memory of the node, or some have to be looked at for another reason.
// Hits of single samples are then counted, and not told to the policy one by one.
ShareId KeptItems::whole(const Stream& stream, NodeIndex node) const {
  const Dataset& dataset = s_.datasets[stream.dataset];
  if (!stream.names_samples() || stream.pipeline->decodes() ||
      !dataset.corrupt_by(stream.pipeline_id).empty()) {
    return ShareId::none();
  }
  const ItemCaches& caches = item_shares_.caches(dataset.id);
  const ItemCache* cache = s_.nodes[node].lost || caches.homes() ? nullptr : caches.find(node, 0);
  if (cache == nullptr || cache->dram.is_none()) return ShareId::none();
  const SharePart& part = s_.memory[cache->dram];
  if (part.spec.bundle_shift == 0 &&
      (!(part.choice->entry->ignores_hits || part.choice->entry->whole_without_hits) ||
       part.share->adopting())) {
    return ShareId::none();
  }
  // A share that is to shrink must not be pinned for ever.
  const bool whole = part.share->used() <= part.share->capacity() &&
                     part.share->residents() == part.spec.items &&
                     reads_.coming_to(cache->dram) == 0;
  return whole ? cache->dram : ShareId::none();
}

void KeptItems::show(const Stream& stream, NodeIndex node,
                     std::span<const order::ChosenEpoch::Candidate> candidates,
                     std::vector<SampleCandidate>& out) const {
  const Dataset& dataset = s_.datasets[stream.dataset];
  const ItemCaches& caches = item_shares_.caches(dataset.id);
  const auto kept = [&](const ItemCache* cache, SampleId sample) {
    return cache != nullptr && item_shares_.has(*cache, sample);
  };
  out.clear();
  for (const order::ChosenEpoch::Candidate& candidate : candidates) {
    const SampleId sample = candidate.sample;
    const NodeIndex home = item_shares_.home_of(dataset, sample, node);
    const bool decodes = stream.pipeline->decodes();
    const bool lost = s_.nodes[home].lost;
    out.push_back(
        {sample, candidate.passed_over,
         !lost && decodes && kept(caches.find(home, stream.pipeline->prefix_hash), sample),
         !lost && kept(caches.find(home, 0), sample), dataset.catalogue->bytes(sample)});
  }
}

}  // namespace batchflow::engine
