// Passes of lanes and the members in them: the state of blocks, and the counts that follow from it.
#include <algorithm>

#include "core/base/check.h"
#include "core/order/lanes.h"

namespace batchflow::order {

// -------------------------------------------------------------------- what became of blocks ----

void Lanes::making(BlockRef ref) {
  const BlockState state = at(ref).states[ref.block];
  BF_CHECK(!is_here(state));
  change_state(ref, state == BlockState::dropped ? BlockState::remaking : BlockState::making);
}

void Lanes::made(BlockRef ref) {
  const BlockState state = at(ref).states[ref.block];
  BF_CHECK(state == BlockState::making || state == BlockState::remaking);
  change_state(ref, BlockState::resident);
}

void Lanes::failed(BlockRef ref) {
  const BlockState state = at(ref).states[ref.block];
  BF_CHECK(state == BlockState::making || state == BlockState::remaking);
  change_state(ref, state == BlockState::making ? BlockState::absent : BlockState::dropped);
}

void Lanes::dropped(BlockRef ref) {
  BF_CHECK(at(ref).states[ref.block] == BlockState::resident);
  change_state(ref, BlockState::dropped);
}

// Moves the block to the state, and updates the counts of all members that have not taken it.
void Lanes::change_state(BlockRef ref, BlockState state) {
  Pass& pass = passes_[ref.pass];
  const BlockState before = pass.states[ref.block];
  const bool could_be_joined = pass.may_be_joined();
  pass.move_to(ref.block, state);
  if (pass.may_be_joined() != could_be_joined) needs_changed(pass.generation, pass.lane);
  const int here = int{is_here(state)} - int{is_here(before)};
  const int gone = int{state == BlockState::dropped} - int{before == BlockState::dropped};
  if (here == 0 && gone == 0) return;
  for (const std::uint32_t slot : pass.members) {
    PassMember& entry = pass_members_[slot];
    if (entry.taken.test(ref.block)) continue;
    Member& member = members_[entry.member.value];
    entry.here += static_cast<std::uint32_t>(here);
    entry.dropped += static_cast<std::uint32_t>(gone);
    member.runs[entry.run].here += static_cast<std::uint32_t>(here);
    member.left -= static_cast<std::uint32_t>(gone);
    if (gone != 0) update_hunger(member);
  }
  free_pass_if_done(ref.pass);
}

// ----------------------------------------------------------------------------------- passes ----

std::uint32_t Lanes::find_pass(const Generation& generation, std::uint32_t lane,
                               std::uint32_t number) const {
  for (const std::uint32_t slot : generation.open[lane])
    if (passes_[slot].number == number) return slot;
  return kNoSlot;
}

std::uint32_t Lanes::find_or_open_pass(std::uint32_t generation_slot, std::uint32_t lane,
                                       std::uint32_t number) {
  Generation& generation = generations_[generation_slot];
  if (const std::uint32_t found = find_pass(generation, lane, number); found != kNoSlot)
    return found;
  const std::uint32_t slot = passes_.take();
  Pass& pass = passes_[slot];
  pass.generation = generation_slot;
  pass.lane = lane;
  pass.number = number;
  pass.open(generation.sizes.blocks_of(lane), ++serials_);
  // No job has had a pass that was never opened.
  const bool is_new = number >= generation.next_pass[lane];
  pass.wanted = is_new ? generation.demand[lane].members : count_wanting(pass);
  generation.open[lane].push_back(slot);
  generation.next_pass[lane] = std::max(generation.next_pass[lane], number + 1);
  ++generation.passes_alive;
  ++generation.passes_opened;
  return slot;
}

std::uint32_t Lanes::count_wanting(const Pass& pass) const {
  if (generations_[pass.generation].demand[pass.lane].members == 0) return 0;
  std::uint32_t count = 0;
  for (std::uint32_t slot = 0; slot < members_.size(); ++slot) {
    if (!members_[slot].used || members_[slot].strict) continue;
    for (const Run& run : members_[slot].runs) {
      if (run.active && run.generation == pass.generation && run.needs.test(pass.lane) &&
          run.passes[pass.lane] <= pass.number)
        ++count;
    }
  }
  return count;
}

void Lanes::free_pass_if_done(std::uint32_t slot) {
  Pass& pass = passes_[slot];
  if (!pass.members.empty() || pass.here != 0) return;
  Generation& generation = generations_[pass.generation];
  std::erase(generation.open[pass.lane], slot);
  --generation.passes_alive;
  pass.serial = 0;
  passes_.release(slot);
  free_generation_if_done(pass.generation);
}

// ------------------------------------------------------------------------ members of passes ----

// From now on the member has the pass open, without the blocks in `taken` (may be null). Blocks
// that are taken and not here were made once: other members make them again, after what was never
// made.
std::uint32_t Lanes::join_pass(MemberId id, std::uint32_t number, std::uint32_t pass_slot,
                               const Bitmap* taken) {
  const std::uint32_t slot = pass_members_.take();
  Pass& pass = passes_[pass_slot];
  Member& member = members_[id.value];
  Run& run = member.runs[number];
  PassMember& entry = pass_members_[slot];
  entry = PassMember{
      id, number, pass_slot, 0, 0, 0, run.passed, taken ? *taken : Bitmap(pass.blocks()), 0};
  pass.members.push_back(slot);
  if (taken)
    taken->for_each([&](std::size_t at_block) {
      const auto block = static_cast<std::uint32_t>(at_block);
      if (pass.states[block] == BlockState::absent)
        change_state({pass_slot, block, pass.serial}, BlockState::dropped);
    });
  for (std::uint32_t block = 0; block < pass.blocks(); ++block) {
    if (entry.taken.test(block)) continue;
    ++entry.untaken;
    ++pass.needed[block];
    if (is_here(pass.states[block])) ++entry.here;
    if (pass.states[block] == BlockState::dropped) ++entry.dropped;
  }
  BF_CHECK(entry.untaken != 0);
  run.open.push_back(slot);
  run.passed = 0;
  run.here += entry.here;
  run.untaken -= pass.blocks() - entry.untaken;
  member.left += entry.untaken - entry.dropped;
  update_hunger(member);
  return slot;
}

// The member has taken the last block of the pass, or leaves it.
void Lanes::leave_pass(std::uint32_t slot) {
  PassMember& entry = pass_members_[slot];
  Pass& pass = passes_[entry.pass];
  Member& member = members_[entry.member.value];
  Run& run = member.runs[entry.run];
  if (entry.untaken != 0) {
    for (std::uint32_t block = 0; block < pass.blocks(); ++block)
      if (!entry.taken.test(block)) --pass.needed[block];
  }
  run.here -= entry.here;
  member.left -= entry.untaken - entry.dropped;
  const auto next = run.open.erase(std::find(run.open.begin(), run.open.end(), slot));
  (next == run.open.end() ? run.passed : pass_members_[*next].passed) +=
      entry.passed + pass.blocks();
  if (entry.untaken != 0 || pass.members.size() == 1) needs_changed(pass.generation, pass.lane);
  std::erase(pass.members, slot);
  pass_members_.release(slot);
  free_pass_if_done(entry.pass);
}

std::uint32_t Lanes::pass_member_in(const Run& run, std::uint32_t pass) const {
  for (const std::uint32_t slot : run.open)
    if (pass_members_[slot].pass == pass) return slot;
  return kNoSlot;
}

std::size_t Lanes::first_missing(const PassMember& entry) const {
  const Pass& pass = passes_[entry.pass];
  return std::min(pass.absent_blocks.first_without(entry.taken, entry.first_word),
                  pass.dropped_blocks.first_without(entry.taken, entry.first_word));
}

}  // namespace batchflow::order
