#include "runtime/service/backend/kept_samples.h"

#include <algorithm>

namespace batchflow::service {
namespace {

Bytes mean_bytes(std::uint64_t items, Bytes all) {
  return items == 0 ? 0 : all / items + 1;
}

// With a little to spare, so that samples do not take more than the engine counts.
Bytes counted_for(Bytes mean) {
  return mean + mean / 64;
}

}  // namespace

void KeptSamples::open(DatasetId dataset, Digest prefix, ShareId share) {
  std::vector<ShareId>& shares = shares_[{dataset.value, prefix}];
  if (std::find(shares.begin(), shares.end(), share) != shares.end()) return;
  // The number may have belonged to another share before.
  for (auto& [what, others] : shares_) std::erase(others, share);
  decoded_.erase(share.value);
  items_.drop_all(share);
  shares.push_back(share);
}

void KeptSamples::open_decoded(DatasetId dataset, Digest prefix, ShareId share) {
  open(dataset, prefix, share);
  // A share that is empty may have been closed and opened since it was measured.
  if (items_.sum(share).items == 0) decoded_[share.value] = {dataset};
}

std::vector<ShareId> KeptSamples::shares_of(DatasetId dataset, Digest prefix) const {
  const auto shares = shares_.find({dataset.value, prefix});
  return shares == shares_.end() ? std::vector<ShareId>() : shares->second;
}

// Decoded samples are alone.
ItemStore::Aside KeptSamples::aside(DatasetId dataset, Digest prefix) const {
  const ServedDataset& served = context_.datasets.dataset(dataset);
  return {served.index->version(), prefix == 0 ? served.bundle_shift : std::uint8_t{0}, prefix};
}

void KeptSamples::put_aside() {
  for (const auto& [what, shares] : shares_) {
    const DatasetId dataset(what.first);
    if (!context_.datasets.knows(dataset)) continue;
    for (const ShareId share : shares) items_.put_aside(share, aside(dataset, what.second));
  }
  items_.drop_shares();
  shares_.clear();
  decoded_.clear();
}

std::vector<KeptSamples::Before> KeptSamples::kept_before(DatasetId dataset) const {
  std::vector<Before> all;
  for (const ItemStore::Aside& what : items_.asides(aside(dataset, 0).version)) {
    // What was bundled otherwise is of no use; nor is what the engine would not listen to.
    if (what != aside(dataset, what.prefix) || all.size() == engine::kFormsKeptMost - 1) continue;
    Before& one = all.emplace_back();
    one.prefix = what.prefix;
    one.bundle_shift = what.bundle_shift;
    const ItemStore::Sum sum = items_.sum(what);
    if (what.prefix != 0) one.bytes = counted_for(mean_bytes(sum.items, sum.bytes));
    for (const ItemId item : items_.aside(what))
      one.samples.emplace_back(std::uint64_t{item.value} << what.bundle_shift);
  }
  return all;
}

void KeptSamples::adopt(DatasetId dataset, Digest prefix, ShareId share) {
  if (prefix == 0) {
    open(dataset, 0, share);
  } else {
    open_decoded(dataset, prefix, share);
  }
  items_.adopt(aside(dataset, prefix), share);
  measure_decoded();
}

void KeptSamples::put(ShareId share, ItemId item,
                      std::span<const std::span<const std::byte>> parts) {
  make_room_(ItemStore::needed_for(parts));
  if (!items_.put(share, item, parts)) ++counters_.not_kept;
}

void KeptSamples::put(ShareId share, ItemId item, ItemStore::Item copied, Bytes bytes) {
  if (!items_.put(share, item, std::move(copied), bytes)) ++counters_.not_kept;
}

bool KeptSamples::drop_decoded(Bytes bytes) {
  Bytes dropped = 0;
  for (const auto& [share, one] : decoded_) {
    if (dropped < bytes) dropped += items_.drop_some(ShareId(share), bytes - dropped);
  }
  return dropped > 0;
}

// At first, pictures of unknown sizes are counted by a guess. If they are larger, they would take
// the memory of batches. If they are much smaller, memory would lie idle.
void KeptSamples::measure_decoded() {
  constexpr std::uint64_t kSamplesLeast = 16;
  for (auto& [share, one] : decoded_) {
    const ItemStore::Sum sum = items_.sum(ShareId(share));
    if (sum.offered_items < kSamplesLeast) continue;
    const Bytes mean = mean_bytes(sum.offered_items, sum.offered_bytes);
    if (mean <= one.counted && mean >= one.counted - one.counted / 8) continue;
    one.counted = counted_for(mean);
    context_.inbox.add(engine::DecodedMeasured{one.dataset, ShareId(share), one.counted});
  }
}

void KeptSamples::note_fresh(DatasetId dataset, SampleId sample, std::uint8_t bundle_shift) {
  if (bundle_shift == 0) {
    fresh_.insert(key(dataset, sample));
  } else {
    ++fresh_bundles_[dataset.value];
  }
}

// Each bundle was read for one sample; the others that it brought are hits.
void KeptSamples::count_uses(DatasetId dataset, std::uint64_t samples) {
  const auto found = fresh_bundles_.find(dataset.value);
  const std::uint64_t fresh = found == fresh_bundles_.end() ? 0 : std::min(found->second, samples);
  if (fresh > 0) found->second -= fresh;
  counters_.encoded_hits += samples - fresh;
}

void KeptSamples::count_use(DatasetId dataset, SampleId sample, Form form) {
  // A sample that was read for this same block is no hit.
  const bool fresh = form == Form::encoded && fresh_.erase(key(dataset, sample)) > 0;
  if (!fresh) ++(form == Form::decoded ? counters_.decoded_hits : counters_.encoded_hits);
}

}  // namespace batchflow::service
