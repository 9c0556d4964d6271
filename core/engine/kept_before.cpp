#include "core/engine/kept_before.h"

#include <algorithm>
#include <utility>

#include "core/engine/books.h"
#include "core/engine/placement.h"

namespace batchflow::engine {

namespace {

constexpr std::size_t kLetInAStep = 2048;
// Jobs wait no longer for what comes in: reading some of it again costs less then.
constexpr std::uint32_t kHeldUpMost = 64;

// Bundles are for what is in memory as it is stored. Drives keep nothing decoded.
bool is_a_form(const SamplesKept& event) {
  constexpr std::uint8_t kShiftMost = 63;
  const bool is_drive = event.place.tier == Tier::nvme;
  if (event.place.device != 0 || (!is_drive && event.place.tier != Tier::dram)) return false;
  if (event.prefix != 0) return !is_drive && event.bundle_shift == 0 && event.bytes > 0;
  return event.bytes == 0 && event.bundle_shift <= (is_drive ? 0 : kShiftMost);
}

}  // namespace

bool KeptBefore::makes_sense(const SamplesKept& event, DatasetIndex dataset) const {
  if (!is_a_form(event) || event.samples.size() > kSamplesKeptMost) return false;
  const std::uint64_t all = s_.datasets[dataset].catalogue->samples();
  return std::all_of(event.samples.begin(), event.samples.end(), [&](SampleId sample) {
    return sample.value < all && first_in_bundle(sample, event.bundle_shift) == sample;
  });
}

// Null: the node has named too many forms of the dataset.
KeptBefore::Found* KeptBefore::find(NodeIndex node, DatasetIndex dataset,
                                    const SamplesKept& event) {
  std::size_t forms = 0;
  for (Found& one : found_) {
    if (one.node != node || one.dataset != dataset) continue;
    ++forms;
    if (one.what.place == event.place && one.what.prefix == event.prefix &&
        one.what.bundle_shift == event.bundle_shift)
      return &one;
  }
  if (forms == kFormsKeptMost) return nullptr;
  Found& made = found_.emplace_back(Found{node, dataset, event, false, {}});
  made.what.samples = {};
  return &made;
}

void KeptBefore::kept(const SamplesKept& event) {
  const NodeIndex node = s_.node_of.find(event.place.node);
  const DatasetIndex dataset = s_.dataset_of.find(event.dataset);
  if (node.is_none() || dataset.is_none() || !makes_sense(event, dataset))
    return s_.protocol_error();
  if (event.samples.empty()) return;
  Found* const found = find(node, dataset, event);
  const std::uint64_t all = s_.datasets[dataset].catalogue->samples();
  // A node that names more samples than there are names some again and again.
  if (!found || event.samples.size() > all - std::min<std::uint64_t>(all, found->samples.size()))
    return s_.protocol_error();
  found->samples.insert(found->samples.end(), event.samples.begin(), event.samples.end());
  has_more_ = true;
}

void KeptBefore::forget(NodeIndex node) {
  std::erase_if(found_, [node](const Found& one) { return one.node == node; });
}

ShareId KeptBefore::share_of(const Found& found) const {
  const ItemCache* const cache =
      item_shares_.cache(found.node, s_.datasets[found.dataset].id, found.what.prefix);
  if (cache == nullptr) return ShareId::none();
  return found.what.place.tier == Tier::nvme ? cache->nvme : cache->dram;
}

// What waits for its share is looked at again when some share has got room.
bool KeptBefore::go_on() {
  if (!has_more_ && looked_at_ == s_.memory.resizes()) return false;
  looked_at_ = s_.memory.resizes();
  has_more_ = false;
  std::size_t most = kLetInAStep;
  std::erase_if(found_, [&](Found& one) {
    const ShareId share = share_of(one);
    if (share.is_none()) return false;
    const SharePart& part = s_.memory[share];
    if (part.spec.bundle_shift != one.what.bundle_shift) return true;  // it is of no use here
    if (part.share->capacity() == 0) return false;
    const bool is_over = let_in(one, share, most);
    has_more_ = has_more_ || !is_over;
    return is_over;
  });
  held_up_ = has_more_ ? held_up_ + 1 : 0;
  if (has_more_) s_.alarms.set(s_.now, {});
  return has_more_ && held_up_ <= kHeldUpMost;
}

// True: all have come in, or have left.
bool KeptBefore::let_in(Found& found, ShareId index, std::size_t& most) {
  const SharePart& part = s_.memory[index];
  Share& share = *part.share;
  const Catalogue& catalogue = *s_.datasets[found.dataset].catalogue;
  if (!std::exchange(found.is_adopted, true)) {
    s_.emit(Adopt{part.spec.place, index, part.spec.dataset, part.spec.prefix});
    // A pipeline only guesses how large its samples are. The share has room for others once memory
    // has been divided anew.
    const Bytes bytes = found.what.bytes;
    if (bytes != 0 && bytes != part.spec.slot_bytes) {
      if (s_.memory.resize_slots(index, bytes)) return false;
      s_.protocol_error();
    }
  }
  for (; !found.samples.empty() && most > 0; --most) {
    const ItemId item = part.spec.item_of(found.samples.back());
    found.samples.pop_back();
    if (share.resident(item)) continue;
    Access access{item, slots_of(catalogue, part.spec, item)};
    access.at = s_.now;
    // There is room, so nothing leaves for it.
    const bool fits =
        access.slots <= kItemSlotsMost && share.used() + access.slots <= share.capacity();
    if (fits && share.insert_forced(access, gone_)) {
      s_.memory.note_from_before(index, item);
      ++s_.counters.items_adopted;
    } else {
      s_.emit(Drop{index, part.spec.place, form_of(part.spec.use), item});
    }
  }
  return found.samples.empty();
}

}  // namespace batchflow::engine
