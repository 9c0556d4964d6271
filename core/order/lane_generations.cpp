// Generations of one stream: in which of them a job begins an epoch, and when a generation is over.
#include <algorithm>

#include "core/order/lanes.h"

namespace batchflow::order {

std::uint32_t Lanes::find_generation(std::uint64_t number, const LaneSizes& sizes) const {
  for (const std::uint32_t slot : numbered(number)) {
    if (generations_[slot].sizes == sizes) return slot;
  }
  return kNoSlot;
}

std::span<const std::uint32_t> Lanes::numbered(std::uint64_t number) const {
  const auto found = by_number_.find(number);
  if (found == by_number_.end()) return {};
  return found->second;
}

std::uint32_t Lanes::use_generation(std::uint64_t number, const LaneSizes& sizes) {
  if (const std::uint32_t found = find_generation(number, sizes); found != kNoSlot) return found;
  const std::uint32_t slot = generations_.take();
  generations_[slot].open_up(number, sizes);
  std::vector<std::uint32_t>& slots = by_number_[number];
  slots.insert(std::lower_bound(slots.begin(), slots.end(), slot), slot);
  if (slots.size() > 1) cut_otherwise_.insert(number);
  strict_choice_changed(number);
  return slot;
}

// A strict sequence does not depend on how lanes are cut. So a strict job takes the lanes of the
// jobs that are in its epoch; otherwise it would share no block with them.
std::uint32_t Lanes::find_strict_generation(std::uint64_t epoch) const {
  const LaneSizes& wanted = options_.sizes;
  std::uint32_t found = kNoSlot;
  for (const std::uint32_t slot : numbered(epoch)) {
    const LaneSizes& sizes = generations_[slot].sizes;
    const bool has_its_blocks =
        sizes.samples == wanted.samples && sizes.block_samples == wanted.block_samples;
    if (!has_its_blocks) continue;
    if (found == kNoSlot || sizes == wanted) found = slot;
  }
  return found;
}

// A generation of that number came or went; others of that number may be cut into other sizes.
void Lanes::strict_choice_changed(std::uint64_t number) {
  if (strict_after_.empty()) return;
  for (const std::uint32_t slot : numbered(number)) all_needs_changed(slot);
}

std::uint32_t Lanes::use_strict_generation(std::uint64_t epoch) {
  const std::uint32_t found = find_strict_generation(epoch);
  return found != kNoSlot ? found : use_generation(epoch, options_.sizes);
}

void Lanes::enter(Run& run, std::uint32_t generation) {
  run.generation = generation;
  run.entered = true;
  ++generations_[generation].runs;
}

void Lanes::leave(Run& run) {
  --generations_[run.generation].runs;
  run.entered = false;
  free_generation_if_done(run.generation);
}

void Lanes::free_generation_if_done(std::uint32_t slot) {
  Generation& generation = generations_[slot];
  if (generation.runs != 0 || generation.passes_alive != 0) return;
  generation.used = false;
  std::erase_if(changed_, [&](const Lane& lane) { return lane.generation == slot; });
  generations_.release(slot);
  std::vector<std::uint32_t>& slots = by_number_[generation.number];
  std::erase(slots, slot);
  if (slots.size() <= 1) cut_otherwise_.erase(generation.number);
  if (slots.empty()) by_number_.erase(generation.number);
  strict_choice_changed(generation.number);
}

// The generation of an epoch that begins: the newest one, if others in it have lanes left that the
// job can have with them; else a new one.
std::uint32_t Lanes::choose_generation(const Run& previous) {
  std::uint32_t found = kNoSlot;
  for (const std::uint32_t slot : numbered(next_generation_ - 1)) {
    if (!may_begin_in(slot, previous)) continue;
    if (found == kNoSlot || generations_[slot].sizes == options_.sizes) found = slot;
  }
  if (found != kNoSlot) return found;
  const std::uint64_t number = new_generation_number();
  next_generation_ = number + 1;
  return use_generation(number, options_.sizes);
}

bool Lanes::may_begin_in(std::uint32_t slot, const Run& previous) const {
  const Generation& generation = generations_[slot];
  const auto used_up = [&](std::uint32_t pass) { return pass >= options_.passes_most; };
  if (std::any_of(generation.next_pass.begin(), generation.next_pass.end(), used_up)) return false;
  // A strict job has lanes of pass 0, which only a job new to the generation can use.
  const bool stays = previous.entered && previous.generation == slot;
  if (!stays &&
      (!previous.entered || generations_[previous.generation].number != generation.number))
    return generation.runs_with_lanes_left + generation.strict_runs_with_lanes_left != 0;
  // A generation of the same number cut to other sizes would repeat the job's draws.
  return stays && generation.runs_with_lanes_left != 0 &&
         previous.epochs < options_.generation_epochs;
}

// The last one + 1, or the epoch of a strict job that is still in its first lane, if greater.
std::uint64_t Lanes::new_generation_number() const {
  if (strict_beginning_.empty()) return next_generation_;
  return std::max(next_generation_, strict_beginning_.rbegin()->first);
}

}  // namespace batchflow::order
