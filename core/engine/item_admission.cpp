#include "core/engine/item_admission.h"

#include <algorithm>
#include <memory>

#include "core/engine/item_shares.h"
#include "core/engine/staging.h"

namespace batchflow::engine {

void ItemAdmission::look_at(const Around& around, const std::optional<Future::Lane>& lane) {
  around_ = &around;
  future_.look_at(*around.dataset, lane);
  next_sample();
}

// Of a bundle of a run all samples are wanted soon.
Access ItemAdmission::access_to(const SharePart& part, ItemId item, SampleId sample, Slots slots) {
  Access access{item, slots};
  access.at = s_.now;
  access.job = around_->job;
  if (part.wants_next_uses(around_->homes_of)) access.next_use = next_use(part, sample);
  if (around_->runs && part.spec.bundle_shift > 0) {
    const std::uint64_t first = std::uint64_t{item.value} << part.spec.bundle_shift;
    access.run = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(std::uint64_t{1} << part.spec.bundle_shift,
                                around_->dataset->catalogue->samples() - first));
  }
  return access;
}

// A sample is asked about before it comes in, too.
std::uint64_t ItemAdmission::next_use(const SharePart& part, SampleId sample) {
  if (!around_->foretold) return kUnknownUse;
  std::optional<std::uint64_t>& known = next_uses_[part.spec.prefix != 0];
  if (!known) known = future_.next_use(part.spec.prefix, sample);
  return *known;
}

// Counts what a policy that knew the future would have made of the request.
void ItemAdmission::follow(const SharePart& part, const Access& access, bool hit) {
  for (const std::unique_ptr<PolicyShadow>& candidate : part.candidates) {
    if (!candidate->follows(access.item)) continue;
    Access shown = access;
    shown.next_use =
        candidate->wants_next_uses()
            ? next_use(part, SampleId(std::uint64_t{access.item.value} << part.spec.bundle_shift))
            : kUnknownUse;
    candidate->request(shown, part.share->capacity(), hit);
  }
  if (!part.shadow || !part.shadow->follows(access.item) || !around_->foreseen) return;
  const std::uint64_t next =
      access.kept_decoded ? kNeverUsed : next_use(part, SampleId(access.item.value));
  ++s_.counters.followed_requests;
  s_.counters.followed_hits += hit ? 1 : 0;
  s_.counters.followed_bound_hits +=
      part.shadow->request(access.item, access.slots, next, part.share->capacity()) ? 1 : 0;
}

// A miss: the share's policy decides whether the item comes in.
bool ItemAdmission::admit(ShareId index, const Access& access) {
  const SharePart& part = s_.memory[index];
  Share& share = *part.share;
  if (share.capacity() == 0) return false;
  follow(part, access, false);
  gone_.clear();
  const Share::Result result = share.access(access, gone_);
  for (const ItemId item : gone_) s_.evicted.push_back({index, item});
  gone_.clear();
  return result == Share::Result::inserted;
}

// A bundle comes in only where it takes the room of no other, since it brings many samples at once.
// In a run all of them are wanted, so there the policy of the share decides. A sample that finds no
// room for its bundle, or no staging memory, is read alone and not kept.
bool ItemAdmission::admit_bundle(const ItemCache& cache, SampleId sample, Bytes staging) {
  if (cache.dram.is_none()) return false;
  const SharePart& part = s_.memory[cache.dram];
  const ItemId item = part.spec.item_of(sample);
  if (staged_bundle_bytes(s_, *around_->dataset, sample) > staging) return false;
  const Slots slots =
      slots_for(around_->dataset->catalogue->bundle_bytes(item.value), part.spec.slot_bytes);
  const Slots room = part.share->capacity() - std::min(part.share->capacity(), part.share->used());
  if (slots > room && !around_->runs) return false;
  if (slots > kItemSlotsMost || part.share->resident(item)) return false;
  if (!admit(cache.dram, access_to(part, item, sample, slots))) return false;
  part.share->pin(item);  // for the read that will bring it
  return true;
}

ShareId ItemAdmission::admit_encoded(const ItemCache& cache, SampleId sample, bool kept_decoded) {
  const auto has_room = [&](ShareId index) {
    if (index.is_none()) return false;
    const SharePart& part = s_.memory[index];
    const Slots slots = slots_for(stored_bytes(sample), part.spec.slot_bytes);
    return part.share->used() + slots <= part.share->capacity();
  };
  // What leaves memory is not moved to the drive, so none leaves for what has room there. Policies
  // that do not exchange by next uses keep what is new in memory.
  const bool drive_first = !cache.dram.is_none() &&
                           s_.memory[cache.dram].choice->entry->next_uses &&
                           !has_room(cache.dram) && has_room(cache.nvme);
  for (const ShareId index :
       drive_first ? std::array{cache.nvme, cache.dram} : std::array{cache.dram, cache.nvme}) {
    if (index.is_none()) continue;
    const SharePart& part = s_.memory[index];
    if (part.spec.bundle_shift > 0) continue;
    const ItemId item = part.spec.item_of(sample);
    const Slots slots = slots_for(stored_bytes(sample), part.spec.slot_bytes);
    if (slots > kItemSlotsMost) continue;
    Access access = access_to(part, item, sample, slots);
    access.kept_decoded = kept_decoded;
    if (!admit(index, access)) continue;
    part.share->pin(item);  // for the read that will bring it
    return index;
  }
  return ShareId::none();
}

}  // namespace batchflow::engine
