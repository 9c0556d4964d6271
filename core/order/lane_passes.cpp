#include "core/order/lane_passes.h"

#include <algorithm>

namespace batchflow::order {

std::size_t LanePasses::first_missing(const PassMember& member) const {
  const Pass& pass = passes_[member.pass];
  return std::min(pass.absent_blocks.first_without(member.taken, member.first_word),
                  pass.dropped_blocks.first_without(member.taken, member.first_word));
}

std::uint32_t LanePasses::find(std::uint32_t generation, std::uint32_t lane,
                               std::uint32_t number) const {
  for (const std::uint32_t slot : lanes(generation)[lane].open)
    if (passes_[slot].number == number) return slot;
  return kNone;
}

void LanePasses::begin_generation(std::uint32_t slot, std::uint32_t lanes) {
  if (slot >= generations_.size()) generations_.resize(slot + 1);
  generations_[slot].lanes.assign(lanes, {});
  generations_[slot].opened = 0;
}

void LanePasses::use_up(std::uint32_t generation, std::uint32_t lane, std::uint32_t below) {
  std::uint32_t& next = generations_[generation].lanes[lane].next_number;
  next = std::max(next, below);
}

std::uint32_t LanePasses::open(std::uint32_t generation, std::uint32_t lane, std::uint32_t number,
                               std::uint32_t blocks) {
  const std::uint32_t slot = passes_.take();
  Pass& pass = passes_[slot];
  BF_CHECK(pass.members.empty() && pass.here == 0);
  pass.generation = generation;
  pass.lane = lane;
  pass.number = number;
  pass.serial = ++serials_;
  pass.dropped = 0;
  pass.states.assign(blocks, BlockState::absent);
  pass.needed.assign(blocks, 0);
  pass.tags.assign(blocks, 0);
  pass.absent_blocks = Bitmap(blocks, true);
  pass.here_blocks = Bitmap(blocks);
  pass.dropped_blocks = Bitmap(blocks);
  pass.late_blocks = Bitmap(blocks);
  generations_[generation].lanes[lane].open.push_back(slot);
  ++generations_[generation].opened;
  use_up(generation, lane, number + 1);
  return slot;
}

bool LanePasses::close_if_done(std::uint32_t slot) {
  Pass& pass = passes_[slot];
  if (!pass.members.empty() || pass.here != 0) return false;
  std::erase(generations_[pass.generation].lanes[pass.lane].open, slot);
  pass.serial = 0;
  passes_.release(slot);
  return true;
}

std::uint32_t LanePasses::join(MemberId id, std::uint32_t run, std::uint32_t pass_slot,
                               const Bitmap& taken) {
  const std::uint32_t slot = members_.take();
  Pass& pass = passes_[pass_slot];
  PassMember& member = members_[slot];
  member = PassMember{id, run, pass_slot, 0, 0, 0, taken, 0};
  pass.members.push_back(slot);
  for (std::uint32_t block = 0; block < pass.blocks(); ++block) {
    if (taken.test(block)) continue;
    ++member.untaken;
    ++pass.needed[block];
    if (is_here(pass.states[block])) ++member.here;
    if (pass.states[block] == BlockState::dropped) ++member.dropped;
  }
  BF_CHECK(member.untaken != 0);
  return slot;
}

bool LanePasses::take(std::uint32_t slot, std::uint32_t block) {
  PassMember& member = members_[slot];
  BF_CHECK_MSG(!member.taken.test(block), "a block is taken once");
  member.taken.set(block);
  while (member.untaken > 1 && member.taken.word(member.first_word) == ~std::uint64_t{0})
    ++member.first_word;
  --member.untaken;
  --member.here;
  --passes_[member.pass].needed[block];
  return member.untaken == 0;
}

void LanePasses::leave(std::uint32_t slot) {
  const PassMember& member = members_[slot];
  Pass& pass = passes_[member.pass];
  if (member.untaken != 0) {
    for (std::uint32_t block = 0; block < pass.blocks(); ++block)
      if (!member.taken.test(block)) --pass.needed[block];
  }
  std::erase(pass.members, slot);
  members_.release(slot);
}

void LanePasses::set_state(Pass& pass, std::uint32_t block, BlockState state) {
  const auto count = [&](BlockState which, bool in) {
    Bitmap& set = is_here(which)                 ? pass.here_blocks
                  : which == BlockState::dropped ? pass.dropped_blocks
                                                 : pass.absent_blocks;
    in ? set.set(block) : set.reset(block);
    if (is_here(which)) in ? ++pass.here : --pass.here;
    if (which == BlockState::dropped) in ? ++pass.dropped : --pass.dropped;
  };
  if (!is_here(state)) pass.late_blocks.set(block);
  count(pass.states[block], false);
  count(state, true);
  pass.states[block] = state;
}

void LanePasses::check() const {
  std::size_t open = 0;
  for (std::uint32_t slot = 0; slot < passes_.size(); ++slot) {
    if (passes_[slot].serial == 0) continue;
    check_pass(slot);
    ++open;
  }
  BF_CHECK(open == passes_.used());
}

void LanePasses::check_pass(std::uint32_t slot) const {
  const Pass& pass = passes_[slot];
  BF_CHECK(!pass.members.empty() || pass.here != 0);
  BF_CHECK(find(pass.generation, pass.lane, pass.number) == slot);
  BF_CHECK(lanes(pass.generation)[pass.lane].next_number > pass.number);
  std::vector<std::uint32_t> needed(pass.blocks(), 0);
  for (const std::uint32_t member_slot : pass.members) {
    const PassMember& member = members_[member_slot];
    std::uint32_t untaken = 0, here = 0, dropped = 0;
    for (std::uint32_t block = 0; block < pass.blocks(); ++block) {
      if (member.taken.test(block)) continue;
      ++needed[block];
      ++untaken;
      here += is_here(pass.states[block]) ? 1 : 0;
      dropped += pass.states[block] == BlockState::dropped ? 1 : 0;
    }
    BF_CHECK(member.pass == slot && member.untaken == untaken && untaken != 0);
    for (std::uint32_t w = 0; w < member.first_word; ++w)
      BF_CHECK(member.taken.word(w) == ~std::uint64_t{0});
    BF_CHECK(member.here == here && member.dropped == dropped);
  }
  BF_CHECK(pass.needed == needed);
  std::uint32_t here = 0, dropped = 0;
  for (std::uint32_t block = 0; block < pass.blocks(); ++block) {
    const BlockState state = pass.states[block];
    BF_CHECK(pass.here_blocks.test(block) == is_here(state));
    BF_CHECK(pass.dropped_blocks.test(block) == (state == BlockState::dropped));
    BF_CHECK(pass.absent_blocks.test(block) == (state == BlockState::absent));
    here += is_here(state) ? 1 : 0;
    dropped += state == BlockState::dropped ? 1 : 0;
  }
  BF_CHECK(pass.here == here && pass.dropped == dropped);
}

}  // namespace batchflow::order
