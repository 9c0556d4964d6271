#include "core/order/generations.h"

#include "core/base/check.h"

namespace batchflow::order {

std::span<const std::uint32_t> Generations::numbered(std::uint64_t number) const {
  const auto found = by_number_.find(number);
  if (found == by_number_.end()) return {};
  return found->second;
}

std::uint32_t Generations::find(std::uint64_t number, const LaneSizes& sizes) const {
  for (const std::uint32_t slot : numbered(number)) {
    if (table_[slot].sizes == sizes) return slot;
  }
  return kNone;
}

// A strict sequence does not depend on how lanes are cut. So a strict job takes the lanes of the
// jobs that are in its epoch; otherwise it would share no block with them.
LaneSizes Generations::strict_sizes(std::uint64_t epoch) const {
  std::uint32_t found = kNone;
  for (const std::uint32_t slot : numbered(epoch)) {
    const LaneSizes& sizes = table_[slot].sizes;
    const bool has_its_blocks =
        sizes.samples == new_sizes_.samples && sizes.block_samples == new_sizes_.block_samples;
    if (!has_its_blocks) continue;
    if (found == kNone || sizes == new_sizes_) found = slot;
  }
  return found == kNone ? new_sizes_ : table_[found].sizes;
}

std::uint32_t Generations::open(std::uint64_t number, const LaneSizes& sizes) {
  const std::uint32_t slot = table_.take();
  BF_CHECK(table_[slot].uses == 0);
  table_[slot] = {number, sizes, 0};
  std::vector<std::uint32_t>& slots = by_number_[number];
  slots.insert(std::lower_bound(slots.begin(), slots.end(), slot), slot);
  if (slots.size() > 1) cut_otherwise_.insert(number);
  return slot;
}

bool Generations::release(std::uint32_t slot) {
  Generation& generation = table_[slot];
  if (--generation.uses != 0) return false;
  table_.release(slot);
  const auto found = by_number_.find(generation.number);
  std::erase(found->second, slot);
  if (found->second.size() <= 1) cut_otherwise_.erase(generation.number);
  if (found->second.empty()) by_number_.erase(found);
  return true;
}

}  // namespace batchflow::order
