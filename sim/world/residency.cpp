#include "sim/world/residency.h"

#include <algorithm>

namespace batchflow::world {

namespace {

std::uint64_t key(ShareId share, SlotId slot) {
  return std::uint64_t{share.value} << 32 | slot.value;
}

std::size_t tier_of(Place place) {
  return place.tier == Tier::nvme ? 1 : place.tier == Tier::gpu ? 2 : 0;
}

}  // namespace

void Residency::add(Place place, Form form, Bytes bytes) {
  const auto index = static_cast<std::size_t>(form);
  const std::size_t tier = tier_of(place);
  nodes_[place.node.value][index][tier] += bytes;
  all_[index][tier] += bytes;
  bytes_ += bytes;
  most_ = std::max(most_, bytes_);
}

void Residency::remove(Place place, Form form, Bytes bytes) {
  const auto index = static_cast<std::size_t>(form);
  const std::size_t tier = tier_of(place);
  Bytes& kept = nodes_[place.node.value][index][tier];
  bytes = std::min(kept, bytes);
  kept -= bytes;
  all_[index][tier] -= bytes;
  bytes_ -= bytes;
}

void Residency::put(ShareId share, SlotId slot, Place place, Bytes bytes) {
  drop(share, slot);
  slots_[key(share, slot)] = {place, bytes};
  add(place, Form::prepared, bytes);
}

void Residency::grow(ShareId share, SlotId slot, Place place, Bytes bytes) {
  const auto found = slots_.find(key(share, slot));
  if (found == slots_.end() || found->second.bytes < bytes) put(share, slot, place, bytes);
}

void Residency::drop(ShareId share, SlotId slot) {
  const auto found = slots_.find(key(share, slot));
  if (found == slots_.end()) return;
  remove(found->second.place, Form::prepared, found->second.bytes);
  slots_.erase(found);
}

void Residency::lose(NodeId node) {
  for (std::size_t form = 0; form < kForms; ++form) {
    for (const Tier tier : {Tier::dram, Tier::nvme, Tier::gpu}) {
      remove({node, tier, 0}, static_cast<Form>(form), UINT64_MAX);
    }
  }
  std::erase_if(slots_, [&](const auto& entry) { return entry.second.place.node == node; });
}

output::CachedBytes Residency::sum() const {
  return {all_[0][0], all_[1][0], all_[2][0], all_[0][1], all_[1][1], all_[1][2]};
}

}  // namespace batchflow::world
