#include "core/order/changed_needs.h"

#include <algorithm>

namespace batchflow::order {

void ChangedNeeds::begin_generation(std::uint32_t slot, std::uint32_t lanes) {
  if (slot >= queued_.size()) queued_.resize(slot + 1);
  queued_[slot].assign(lanes, false);
}

void ChangedNeeds::end_generation(std::uint32_t slot) {
  std::erase_if(lanes_, [&](const Lane& lane) { return lane.generation == slot; });
}

// A lane without a pass has no blocks.
void ChangedNeeds::lane_changed(std::uint32_t generation, std::uint32_t lane) {
  if (passes_.lanes(generation)[lane].open.empty() || queued_[generation][lane]) return;
  queued_[generation][lane] = true;
  if (lanes_.empty()) report();
  lanes_.push_back({generation, lane});
}

void ChangedNeeds::generation_changed(std::uint32_t slot) {
  const std::uint32_t lanes = generations_[slot].sizes.lanes();
  for (std::uint32_t lane = 0; lane < lanes; ++lane) lane_changed(slot, lane);
}

void ChangedNeeds::number_changed(std::uint64_t number) {
  for (const std::uint32_t slot : generations_.numbered(number)) generation_changed(slot);
}

void ChangedNeeds::numbers_changed(std::uint64_t from, std::uint64_t to) {
  constexpr std::size_t kGenerationsAtOnce = 16;
  const auto& by_number = generations_.by_number();
  std::vector<std::uint32_t> slots;
  for (auto at = by_number.lower_bound(from); at != by_number.end() && at->first < to; ++at) {
    if (slots.size() >= kGenerationsAtOnce) {
      const bool is_first = numbers_from_ >= numbers_to_;
      numbers_from_ = is_first ? from : std::min(numbers_from_, from);
      numbers_to_ = is_first ? to : std::max(numbers_to_, to);
      return report();
    }
    slots.insert(slots.end(), at->second.begin(), at->second.end());
  }
  std::sort(slots.begin(), slots.end());
  for (const std::uint32_t slot : slots) generation_changed(slot);
}

// True: there may be something in `lanes_` now, or of the next number.
bool ChangedNeeds::look_at_next_number() {
  if (numbers_from_ >= numbers_to_) return false;
  const auto at = generations_.by_number().lower_bound(numbers_from_);
  if (at == generations_.by_number().end() || at->first >= numbers_to_) {
    numbers_from_ = numbers_to_ = 0;
    return false;
  }
  numbers_from_ = at->first + 1;
  for (const std::uint32_t slot : at->second) generation_changed(slot);
  return true;
}

bool ChangedNeeds::visit(std::size_t limit, std::vector<BlockRef>& out) {
  for (std::size_t visited = 0; !lanes_.empty() || look_at_next_number();) {
    if (visited >= limit) return false;
    ++visited;
    if (lanes_.empty()) continue;
    const auto [generation, lane] = lanes_.back();
    lanes_.pop_back();
    queued_[generation][lane] = false;
    for (const std::uint32_t pass : passes_.lanes(generation)[lane].open) {
      passes_[pass].here_blocks.for_each([&](std::size_t block) {
        ++visited;
        out.push_back({pass, static_cast<std::uint32_t>(block), passes_[pass].serial});
      });
    }
  }
  return true;
}

}  // namespace batchflow::order
