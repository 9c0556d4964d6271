// The rules of the relaxed order: which block a member takes, and which is made for it.
#include <algorithm>

#include "core/base/check.h"
#include "core/order/keys.h"
#include "core/order/lanes.h"

namespace batchflow::order {

// ----------------------------------------------------------------------------- rule 1: take ----

void Lanes::candidates(MemberId id, std::vector<Candidate>& out, bool to_first_ready) const {
  out.clear();
  const Member& member = at(id);
  if (!member.runs[0].active) return;
  member.strict ? list_strict(member.runs[0], out, to_first_ready)
                : list_relaxed(member.runs[0], out, to_first_ready);
}

void Lanes::list_relaxed(const Run& run, std::vector<Candidate>& out, bool to_first_ready) const {
  std::uint32_t distance = 0;
  bool oldest_found = false;
  for (const std::uint32_t slot : run.open) {
    const PassMember& entry = pass_members_[slot];
    const Pass& pass = passes_[entry.pass];
    if (oldest_found)
      distance += entry.passed + entry.first_word * std::uint32_t{Bitmap::kWordBits};
    for (std::size_t w = entry.first_word; w < pass.here_blocks.words(); ++w) {
      const std::uint64_t taken = entry.taken.word(w);
      const std::uint64_t untaken = pass.here_blocks.word(w) & ~taken;
      // Before the oldest block nothing counts. After it, blocks that are taken count, too.
      for (std::uint64_t left = oldest_found ? untaken | taken : untaken; left != 0;) {
        if (distance >= options_.ready_window || out.size() == options_.ready_window) return;
        const auto bit = static_cast<std::size_t>(std::countr_zero(left));
        const std::size_t block = w * Bitmap::kWordBits + bit;
        left &= left - 1;
        if ((untaken >> bit & 1) != 0) {
          out.push_back(candidate(entry, block, distance));
          if (to_first_ready && out.back().ready) return;
          if (pass.late_blocks.test(block)) continue;
        }
        ++distance;
        if (oldest_found) continue;
        oldest_found = true;
        left |= taken & ~((std::uint64_t{2} << bit) - 1);
      }
    }
  }
}

void Lanes::list_strict(const Run& run, std::vector<Candidate>& out, bool to_first_ready) const {
  std::uint64_t next = run.next_block;
  for (const std::uint32_t slot : run.open) {
    const PassMember& entry = pass_members_[slot];
    const Pass& pass = passes_[entry.pass];
    for (std::size_t block = pass.blocks() - entry.untaken; block < pass.blocks();
         ++block, ++next) {
      const std::uint64_t distance = next - run.next_block;
      if (!pass.here_blocks.test(block) || distance >= options_.ready_window) return;
      out.push_back(candidate(entry, block, static_cast<std::uint32_t>(distance)));
      if (to_first_ready && out.back().ready) return;
    }
  }
}

Lanes::Candidate Lanes::candidate(const PassMember& entry, std::size_t block,
                                  std::uint32_t distance) const {
  const Pass& pass = passes_[entry.pass];
  return {{entry.pass, static_cast<std::uint32_t>(block), pass.serial},
          distance,
          pass.states[block] == BlockState::resident,
          pass.tags[block],
          pass.needed[block]};
}

bool Lanes::take(MemberId id, BlockRef ref) {
  Member& member = at(id);
  Run& run = member.runs[0];
  Pass& pass = at(ref);
  BF_CHECK(run.active && pass.states[ref.block] == BlockState::resident);
  const std::uint32_t slot = pass_member_in(run, ref.pass);
  BF_CHECK_MSG(slot != kNoSlot, "the block's lane is not open to the member");
  PassMember& entry = pass_members_[slot];
  BF_CHECK_MSG(!entry.taken.test(ref.block), "a block is taken once");
  if (member.strict) BF_CHECK(sequence(pass, ref.block) == run.next_block++);
  entry.taken.set(ref.block);
  while (entry.untaken > 1 && entry.taken.word(entry.first_word) == ~std::uint64_t{0})
    ++entry.first_word;
  --entry.untaken;
  --entry.here;
  --run.untaken;
  --run.here;
  --member.left;
  --pass.needed[ref.block];
  if (entry.untaken == 0) leave_pass(slot);
  const bool ended = run.untaken == 0;
  if (ended) end_running_epoch(member);
  update_hunger(member);
  return ended;
}

std::uint32_t Lanes::supply(MemberId id) const {
  const Member& member = at(id);
  std::uint32_t blocks = 0;
  for (const Run& run : member.runs) {
    if (!run.active) break;
    blocks += member.strict ? sequence_here(run) : run.here;
    if (run.lanes_left != 0 || run.untaken != run.here) break;
  }
  return blocks;
}

// How many blocks of a strict member are here without a gap, from its next one on.
std::uint32_t Lanes::sequence_here(const Run& run) const {
  std::uint32_t blocks = 0;
  for (const std::uint32_t slot : run.open) {
    const PassMember& entry = pass_members_[slot];
    const Pass& pass = passes_[entry.pass];
    if (entry.here == entry.untaken) {
      blocks += entry.here;
      continue;
    }
    const std::size_t first = pass.blocks() - entry.untaken;
    return blocks + static_cast<std::uint32_t>(first_missing(entry) - first);
  }
  return blocks;
}

// ----------------------------------------------------------------- rules 2 to 5: make, join ----

Lanes::Need Lanes::next_need(MemberId id) {
  for (const std::uint32_t run : {0u, 1u}) {
    const Member& member = at(id);
    if (!member.runs[run].active) continue;
    const Need need = member.strict ? want_strict(id, run) : want_relaxed(id, run);
    if (need.kind != Need::Kind::nothing) return need;
  }
  return {};
}

Lanes::Need Lanes::want_relaxed(MemberId id, std::uint32_t number) {
  const Run& run = at(id).runs[number];
  for (const std::uint32_t slot : run.open) {  // rule 2
    const PassMember& entry = pass_members_[slot];
    if (entry.untaken == entry.here + entry.dropped) continue;
    return make(entry,
                passes_[entry.pass].absent_blocks.first_without(entry.taken, entry.first_word));
  }
  const bool may_open = run.lanes_left != 0 && run.open.size() < options_.open_lanes_most;
  if (may_open) {  // rules 3 and 4
    const PassMember& entry = pass_members_[open_lane(id, number)];
    if (entry.here != 0) return {Need::Kind::joined, {}, false, number == 1};
    const Pass& pass = passes_[entry.pass];
    return make(entry, entry.dropped == entry.untaken
                           ? pass.dropped_blocks.first_without(entry.taken, entry.first_word)
                           : pass.absent_blocks.first_without(entry.taken, entry.first_word));
  }
  for (const std::uint32_t slot : run.open) {  // rule 5
    const PassMember& entry = pass_members_[slot];
    if (entry.dropped != 0)
      return make(entry,
                  passes_[entry.pass].dropped_blocks.first_without(entry.taken, entry.first_word));
  }
  return {};
}

// The first block of its sequence that is not here, whatever the reason.
Lanes::Need Lanes::want_strict(MemberId id, std::uint32_t number) {
  for (;;) {
    Member& member = at(id);
    Run& run = member.runs[number];
    for (const std::uint32_t slot : run.open) {
      const PassMember& entry = pass_members_[slot];
      if (entry.here != entry.untaken) return make(entry, first_missing(entry));
    }
    if (run.lanes_left == 0) return {};
    const std::uint32_t lane = run.next_lane;
    use_up(member, run, lane);
    const std::uint32_t pass = find_or_open_pass(run.generation, lane, 0);
    const PassMember& entry = pass_members_[join_pass(id, number, pass, nullptr)];
    if (entry.here != 0) return {Need::Kind::joined, {}, false, number == 1};
  }
}

Lanes::Need Lanes::make(const PassMember& entry, std::size_t block) const {
  BF_CHECK(block != Bitmap::kNone);
  const Pass& pass = passes_[entry.pass];
  return {Need::Kind::make,
          {entry.pass, static_cast<std::uint32_t>(block), pass.serial},
          pass.states[block] == BlockState::dropped,
          entry.run == 1};
}

// Rules 3 and 4: joins a pass, or opens one and joins it. Answers the slot of the pass member.
std::uint32_t Lanes::open_lane(MemberId id, std::uint32_t number) {
  Member& member = at(id);
  Run& run = member.runs[number];
  std::uint32_t pass = pass_to_join(run, false);
  if (pass == kNoSlot) pass = pass_to_open(member, run);
  if (pass == kNoSlot) pass = pass_to_join(run, true);
  BF_CHECK_MSG(pass != kNoSlot, "an epoch begins only where each lane has a pass left for it");
  const std::uint32_t lane = passes_[pass].lane;
  use_up(member, run, lane);
  run.passes[lane] = static_cast<std::uint8_t>(passes_[pass].number + 1);
  return join_pass(id, number, pass, nullptr);
}

// Rule 3: the open pass with the fewest blocks dropped; of equal ones the newest, because most of
// it is still to come. A pass that has lost more than half of its blocks, or that all members have
// left, is taken only with `any`.
std::uint32_t Lanes::pass_to_join(const Run& run, bool any) const {
  const Generation& generation = generations_[run.generation];
  std::uint32_t best = kNoSlot;
  const auto better = [](const Pass& a, const Pass& b) {
    return a.dropped != b.dropped ? a.dropped < b.dropped : a.serial > b.serial;
  };
  run.needs.for_each([&](std::size_t lane) {
    for (const std::uint32_t slot : generation.open[lane]) {
      const Pass& pass = passes_[slot];
      if (pass.number < run.passes[lane]) continue;
      if (!any && !pass.may_be_joined()) continue;
      if (best == kNoSlot || better(pass, passes_[best])) best = slot;
    }
  });
  return best;
}

// Rule 4: a pass of the lane that feeds the most hungry members and takes the least from others.
std::uint32_t Lanes::pass_to_open(const Member& member, const Run& run) {
  const Generation& generation = generations_[run.generation];
  std::uint32_t best = kNoSlot;
  std::int64_t best_value = 0;
  std::uint64_t best_hash = 0;
  run.needs.for_each([&](std::size_t at_lane) {
    const auto lane = static_cast<std::uint32_t>(at_lane);
    if (pass_number(generation, run, lane) >= options_.passes_most) return;
    const std::int64_t value = value_to_others(generation, member, lane);
    if (best != kNoSlot && value < best_value) return;
    const std::uint64_t tie = lane_choice_key({options_.dataset_version, options_.seed},
                                              generation.number, lane, generation.passes_opened);
    if (best != kNoSlot && value == best_value && tie <= best_hash) return;
    best = lane;
    best_value = value;
    best_hash = tie;
  });
  if (best == kNoSlot) return kNoSlot;
  return find_or_open_pass(run.generation, best, pass_number(generation, run, best));
}

// 16 for each other hungry member that has the lane before it, -1 for each other member that does.
std::int64_t Lanes::value_to_others(const Generation& generation, const Member& member,
                                    std::uint32_t lane) const {
  std::int64_t members = generation.demand[lane].members - 1;
  std::int64_t hungry = generation.demand[lane].hungry - (member.hungry ? 1 : 0);
  if (generation.next_pass[lane] == 0) {  // what a strict member can have with them
    members += generation.strict_demand[lane].members;
    hungry += generation.strict_demand[lane].hungry;
  }
  return 16 * hungry - (members - hungry);
}

// The next pass of a lane. When numbers have run out: the least pass above the member's last that
// no member has open. Its lineage may be made again, and it is new to the member.
std::uint32_t Lanes::pass_number(const Generation& generation, const Run& run,
                                 std::uint32_t lane) const {
  if (generation.next_pass[lane] < options_.passes_most) return generation.next_pass[lane];
  std::uint32_t number = run.passes[lane];
  while (number < options_.passes_most && find_pass(generation, lane, number) != kNoSlot) ++number;
  return number;
}

}  // namespace batchflow::order
