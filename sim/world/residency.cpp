#include "sim/world/residency.h"

#include <algorithm>

namespace batchflow::sim {

namespace {

std::uint64_t key(ShareId share, SlotId slot) {
  return std::uint64_t{share.value} << 32 | slot.value;
}

}  // namespace

Bytes& Residency::at(Place place, Form form) {
  return nodes_[place.node.value][static_cast<std::size_t>(form)][place.tier == Tier::nvme];
}

void Residency::add_items(Place place, Form form, Bytes bytes) {
  at(place, form) += bytes;
}

void Residency::drop_items(Place place, Form form, Bytes bytes) {
  Bytes& kept = at(place, form);
  kept -= std::min(kept, bytes);
}

void Residency::put(ShareId share, SlotId slot, Place place, Bytes bytes) {
  drop(share, slot);
  slots_[key(share, slot)] = {place, bytes};
  at(place, Form::prepared) += bytes;
}

void Residency::grow(ShareId share, SlotId slot, Place place, Bytes bytes) {
  const auto found = slots_.find(key(share, slot));
  if (found == slots_.end() || found->second.bytes < bytes) put(share, slot, place, bytes);
}

void Residency::drop(ShareId share, SlotId slot) {
  const auto found = slots_.find(key(share, slot));
  if (found == slots_.end()) return;
  drop_items(found->second.place, Form::prepared, found->second.bytes);
  slots_.erase(found);
}

void Residency::lose(NodeId node) {
  nodes_[node.value] = {};
  std::erase_if(slots_, [&](const auto& entry) { return entry.second.place.node == node; });
}

CachedBytes Residency::sum() const {
  CachedBytes sum;
  for (const Kept& kept : nodes_) {
    sum.encoded_dram += kept[0][0];
    sum.encoded_nvme += kept[0][1];
    sum.decoded_dram += kept[1][0];
    sum.decoded_nvme += kept[1][1];
    sum.prepared_dram += kept[2][0];
  }
  return sum;
}

}  // namespace batchflow::sim
