#include "core/order/lane_rules.h"

#include <algorithm>
#include <bit>

#include "core/base/check.h"
#include "core/order/keys.h"

namespace batchflow::order {

// ----------------------------------------------------------------------------- rule 1: take ----

void LaneRules::candidates(const LaneMember& member, std::vector<Lanes::Candidate>& out,
                           bool to_first_ready) const {
  out.clear();
  if (!member.runs[0].active) return;
  member.strict ? list_strict(member.runs[0], out, to_first_ready)
                : list_relaxed(member.runs[0], out, to_first_ready);
}

void LaneRules::list_relaxed(const LaneRun& run, std::vector<Lanes::Candidate>& out,
                             bool to_first_ready) const {
  std::uint32_t distance = 0;
  bool oldest_found = false;
  for (const LaneRun::Open& open : run.open) {
    const PassMember& member = passes_.member(open.member);
    const Pass& pass = passes_[member.pass];
    if (oldest_found)
      distance += open.passed + member.first_word * std::uint32_t{Bitmap::kWordBits};
    for (std::size_t w = member.first_word; w < pass.here_blocks.words(); ++w) {
      const std::uint64_t taken = member.taken.word(w);
      const std::uint64_t untaken = pass.here_blocks.word(w) & ~taken;
      // Before the oldest block nothing counts. After it, blocks that are taken count, too.
      for (std::uint64_t left = oldest_found ? untaken | taken : untaken; left != 0;) {
        if (distance >= options_.ready_window || out.size() == options_.ready_window) return;
        const auto bit = static_cast<std::size_t>(std::countr_zero(left));
        const std::size_t block = w * Bitmap::kWordBits + bit;
        left &= left - 1;
        if ((untaken >> bit & 1) != 0) {
          out.push_back(candidate(member, block, distance));
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

void LaneRules::list_strict(const LaneRun& run, std::vector<Lanes::Candidate>& out,
                            bool to_first_ready) const {
  std::uint64_t next = run.next_block;
  for (const LaneRun::Open& open : run.open) {
    const PassMember& member = passes_.member(open.member);
    const Pass& pass = passes_[member.pass];
    for (std::size_t block = pass.blocks() - member.untaken; block < pass.blocks();
         ++block, ++next) {
      const std::uint64_t distance = next - run.next_block;
      if (!pass.here_blocks.test(block) || distance >= options_.ready_window) return;
      out.push_back(candidate(member, block, static_cast<std::uint32_t>(distance)));
      if (to_first_ready && out.back().ready) return;
    }
  }
}

Lanes::Candidate LaneRules::candidate(const PassMember& member, std::size_t block,
                                      std::uint32_t distance) const {
  const Pass& pass = passes_[member.pass];
  return {{member.pass, static_cast<std::uint32_t>(block), pass.serial},
          distance,
          pass.states[block] == BlockState::resident,
          pass.tags[block],
          pass.needed[block]};
}

std::uint32_t LaneRules::supply(const LaneMember& member) const {
  std::uint32_t blocks = 0;
  for (const LaneRun& run : member.runs) {
    if (!run.active) break;
    blocks += member.strict ? sequence_here(run) : run.here;
    if (run.lanes_left != 0 || run.untaken != run.here) break;
  }
  return blocks;
}

// How many blocks of a strict run are here without a gap, from its next one on.
std::uint32_t LaneRules::sequence_here(const LaneRun& run) const {
  std::uint32_t blocks = 0;
  for (const LaneRun::Open& open : run.open) {
    const PassMember& member = passes_.member(open.member);
    if (member.here == member.untaken) {
      blocks += member.here;
      continue;
    }
    const std::size_t first = passes_[member.pass].blocks() - member.untaken;
    return blocks + static_cast<std::uint32_t>(passes_.first_missing(member) - first);
  }
  return blocks;
}

// ----------------------------------------------------------------- rules 2 to 5: make, join ----

Lanes::Need LaneRules::next_block(const LaneMember& member, const LaneRun& run) const {
  for (const LaneRun::Open& open : run.open) {
    const PassMember& in_pass = passes_.member(open.member);
    const std::uint32_t not_missing = in_pass.here + (member.strict ? 0 : in_pass.dropped);
    if (in_pass.untaken == not_missing) continue;
    return member.strict ? make_missing(in_pass) : make_absent(in_pass);
  }
  return {};
}

Lanes::Need LaneRules::first_need(const LaneMember& member, const PassMember& in_pass) const {
  if (in_pass.here != 0) return {Lanes::Need::Kind::joined, {}, false, in_pass.run == 1};
  if (member.strict) return make_missing(in_pass);
  return in_pass.dropped == in_pass.untaken ? make_dropped(in_pass) : make_absent(in_pass);
}

Lanes::Need LaneRules::lost_block(const LaneRun& run) const {
  for (const LaneRun::Open& open : run.open) {
    const PassMember& member = passes_.member(open.member);
    if (member.dropped != 0) return make_dropped(member);
  }
  return {};
}

Lanes::Need LaneRules::make_missing(const PassMember& member) const {
  return make(member, passes_.first_missing(member));
}

Lanes::Need LaneRules::make_absent(const PassMember& member) const {
  return make(member,
              passes_[member.pass].absent_blocks.first_without(member.taken, member.first_word));
}

Lanes::Need LaneRules::make_dropped(const PassMember& member) const {
  return make(member,
              passes_[member.pass].dropped_blocks.first_without(member.taken, member.first_word));
}

Lanes::Need LaneRules::make(const PassMember& member, std::size_t block) const {
  BF_CHECK(block != Bitmap::kNone);
  const Pass& pass = passes_[member.pass];
  return {Lanes::Need::Kind::make,
          {member.pass, static_cast<std::uint32_t>(block), pass.serial},
          pass.states[block] == BlockState::dropped,
          member.run == 1};
}

std::optional<LaneRules::Lane> LaneRules::next_lane(const LaneMember& member,
                                                    const LaneRun& run) const {
  if (run.lanes_left == 0) return {};
  if (member.strict) return Lane{run.next_lane, 0};
  if (run.open.size() >= options_.open_lanes_most) return {};
  std::optional<Lane> lane = pass_to_join(run, false);
  if (!lane) lane = pass_to_open(member, run);
  if (!lane) lane = pass_to_join(run, true);
  BF_CHECK_MSG(lane, "an epoch begins only where each lane has a pass left for it");
  return lane;
}

// Rule 3: the open pass with the fewest blocks dropped; of equal ones the newest, because most of
// it is still to come. A pass that has lost more than half of its blocks, or that all members have
// left, is taken only with `any`.
std::optional<LaneRules::Lane> LaneRules::pass_to_join(const LaneRun& run, bool any) const {
  const std::vector<LanePasses::Lane>& lanes = passes_.lanes(run.generation);
  const Pass* best = nullptr;
  const auto better = [](const Pass& a, const Pass& b) {
    return a.dropped != b.dropped ? a.dropped < b.dropped : a.serial > b.serial;
  };
  run.needs.for_each([&](std::size_t lane) {
    for (const std::uint32_t slot : lanes[lane].open) {
      const Pass& pass = passes_[slot];
      if (pass.number < run.passes[lane]) continue;
      if (!any && !pass.may_be_joined()) continue;
      if (best == nullptr || better(pass, *best)) best = &pass;
    }
  });
  if (best == nullptr) return {};
  return Lane{best->lane, best->number};
}

// Rule 4: a pass of the lane that feeds the most hungry members and takes the least from others.
std::optional<LaneRules::Lane> LaneRules::pass_to_open(const LaneMember& member,
                                                       const LaneRun& run) const {
  const std::vector<LanePasses::Lane>& lanes = passes_.lanes(run.generation);
  const std::vector<LaneDemand::Lane>& demand = demand_.at(run.generation).lanes;
  const std::uint64_t number = generations_[run.generation].number;
  const std::uint64_t opened = passes_.opened(run.generation);
  std::optional<Lane> best;
  std::int64_t best_value = 0;
  std::uint64_t best_hash = 0;
  run.needs.for_each([&](std::size_t at_lane) {
    const auto lane = static_cast<std::uint32_t>(at_lane);
    const std::uint32_t pass = pass_number(run, lane);
    if (pass >= options_.passes_most) return;
    const std::int64_t value = value_to_others(demand[lane], lanes[lane].next_number == 0, member);
    if (best && value < best_value) return;
    const std::uint64_t tie =
        lane_choice_key({options_.dataset_version, options_.seed}, number, lane, opened);
    if (best && value == best_value && tie <= best_hash) return;
    best = Lane{lane, pass};
    best_value = value;
    best_hash = tie;
  });
  return best;
}

// 16 for each other member that needs the lane and is hungry, -1 for each that needs it and is not.
std::int64_t LaneRules::value_to_others(const LaneDemand::Lane& demand, bool is_new,
                                        const LaneMember& member) const {
  std::int64_t members = demand.relaxed.members - 1;
  std::int64_t hungry = demand.relaxed.hungry - (member.hungry ? 1 : 0);
  if (is_new) {  // what a strict member can have with them
    members += demand.strict.members;
    hungry += demand.strict.hungry;
  }
  return 16 * hungry - (members - hungry);
}

// The next pass of a lane. When numbers have run out: the least pass above the member's last that
// no member has open. Its lineage may be made again, and it is new to the member.
std::uint32_t LaneRules::pass_number(const LaneRun& run, std::uint32_t lane) const {
  const std::uint32_t next = passes_.lanes(run.generation)[lane].next_number;
  if (next < options_.passes_most) return next;
  std::uint32_t number = run.passes[lane];
  while (number < options_.passes_most && passes_.find(run.generation, lane, number) != kNone)
    ++number;
  return number;
}

// ---------------------------------------------------------------- in which generation, and when --

bool LaneRules::may_begin_next_epoch(const LaneMember& member) const {
  const LaneRun& run = member.runs[0];
  return !run.active || (!member.runs[1].active && run.lanes_left == 0 && run.untaken == run.here);
}

// The newest one, if others in it have lanes left that the job can have with them; else a new one.
// Its number is the last one + 1, or the epoch of a strict job that is still in its first lane, if
// greater.
LaneRules::Cut LaneRules::next_generation(const LaneRun& previous) const {
  const LaneSizes& new_sizes = generations_.new_sizes();
  const std::uint64_t newest = generations_.next_number() - 1;
  std::uint32_t found = kNone;
  for (const std::uint32_t slot : generations_.numbered(newest)) {
    if (!may_begin_in(slot, previous)) continue;
    if (found == kNone || generations_[slot].sizes == new_sizes) found = slot;
  }
  if (found != kNone) return {newest, generations_[found].sizes};
  return {std::max(generations_.next_number(), strict_.last_beginning()), new_sizes};
}

bool LaneRules::may_begin_in(std::uint32_t slot, const LaneRun& previous) const {
  const std::vector<LanePasses::Lane>& lanes = passes_.lanes(slot);
  const LaneDemand::Demand& demand = demand_.at(slot);
  const auto used_up = [&](const LanePasses::Lane& lane) {
    return lane.next_number >= options_.passes_most;
  };
  if (std::any_of(lanes.begin(), lanes.end(), used_up)) return false;
  // A strict job has lanes of pass 0, which only a job new to the generation can use.
  const bool stays = previous.entered && previous.generation == slot;
  if (!stays &&
      (!previous.entered || generations_[previous.generation].number != generations_[slot].number))
    return demand.runs_with_lanes_left + demand.strict_runs_with_lanes_left != 0;
  // A generation of the same number cut to other sizes would repeat the job's draws.
  return stays && demand.runs_with_lanes_left != 0 && previous.epochs < options_.generation_epochs;
}

}  // namespace batchflow::order
