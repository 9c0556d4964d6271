#include "core/engine/kept_before.h"

#include <algorithm>
#include <utility>

#include "core/engine/books.h"
#include "core/engine/placement.h"

namespace batchflow::engine {

namespace {

constexpr std::size_t kLetInAStep = 2048;

}  // namespace

void KeptBefore::kept(const SamplesKept& event) {
  const NodeIndex node = s_.node_of.find(event.node);
  const DatasetIndex dataset = s_.dataset_of.find(event.dataset);
  constexpr std::uint8_t kShiftMost = 63;
  if (node.is_none() || dataset.is_none() || event.bundle_shift > kShiftMost ||
      event.samples.size() > kSamplesKeptMost)
    return s_.protocol_error();
  const std::uint64_t all = s_.datasets[dataset].catalogue->samples();
  const bool is_well =
      std::all_of(event.samples.begin(), event.samples.end(), [&](SampleId sample) {
        return sample.value < all && first_in_bundle(sample, event.bundle_shift) == sample;
      });
  if (!is_well) return s_.protocol_error();
  if (event.samples.empty()) return;
  auto found = std::find_if(found_.begin(), found_.end(), [&](const Found& one) {
    return one.node == node && one.dataset == dataset && one.bundle_shift == event.bundle_shift;
  });
  if (found == found_.end()) {
    found_.push_back({node, dataset, event.bundle_shift, false, {}});
    found = found_.end() - 1;
  }
  if (event.samples.size() > all - std::min<std::uint64_t>(all, found->samples.size()))
    return s_.protocol_error();  // it says the same again and again
  found->samples.insert(found->samples.end(), event.samples.begin(), event.samples.end());
}

void KeptBefore::forget(NodeIndex node) {
  std::erase_if(found_, [node](const Found& one) { return one.node == node; });
}

void KeptBefore::go_on() {
  std::size_t most = kLetInAStep;
  std::erase_if(found_, [&](Found& one) {
    const ItemCache* const cache =
        item_shares_.cache(one.node, s_.datasets[one.dataset].id, Digest(0));
    if (cache == nullptr || cache->dram.is_none()) return false;
    const SharePart& part = s_.memory[cache->dram];
    if (part.spec.bundle_shift != one.bundle_shift) return true;  // it is of no use here
    return part.share->capacity() > 0 && let_in(one, cache->dram, most);
  });
}

// True: all have come in, or have left.
bool KeptBefore::let_in(Found& found, ShareId index, std::size_t& most) {
  const SharePart& part = s_.memory[index];
  Share& share = *part.share;
  const Catalogue& catalogue = *s_.datasets[found.dataset].catalogue;
  if (!std::exchange(found.is_adopted, true)) {
    s_.emit(Adopt{part.spec.place, index, part.spec.dataset});
    item_shares_.keep_strays(part.spec.dataset);
  }
  for (; !found.samples.empty() && most > 0; --most) {
    const ItemId item = part.spec.item_of(found.samples.back());
    found.samples.pop_back();
    if (share.resident(item)) continue;
    Access access{item, slots_for(stored_bytes(catalogue, part.spec, item), part.spec.slot_bytes)};
    access.at = s_.now;
    // There is room, so nothing leaves for it.
    const bool fits =
        access.slots <= kItemSlotsMost && share.used() + access.slots <= share.capacity();
    if (fits && share.insert_forced(access, gone_)) {
      ++s_.counters.items_adopted;
    } else {
      s_.emit(Drop{index, part.spec.place, Form::encoded, item});
    }
  }
  if (found.samples.empty()) return true;
  s_.alarms.set(s_.now, {});
  return false;
}

}  // namespace batchflow::engine
