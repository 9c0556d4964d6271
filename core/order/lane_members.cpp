#include "core/order/lane_members.h"

#include <algorithm>
#include <utility>

namespace batchflow::order {

// ---------------------------------------------------------------------------- add and remove ----

MemberId LaneMembers::take_slot(std::uint32_t tag, bool strict) {
  const MemberId id(members_.take());
  LaneMember& member = members_[id.value];
  member = LaneMember{};
  member.used = true;
  member.strict = strict;
  member.hungry = true;
  member.tag = tag;
  return id;
}

MemberId LaneMembers::add(std::uint32_t tag) {
  return take_slot(tag, false);
}

MemberId LaneMembers::add(std::uint32_t tag, const LanePosition& position) {
  const MemberId id = take_slot(tag, false);
  LaneMember& member = members_[id.value];
  LaneRun& run = member.runs[0];
  enter(run, position.generation, position.sizes);
  run.passes = position.passes;
  for (std::uint32_t lane = 0; lane < run.passes.size(); ++lane)
    passes_.use_up(run.generation, lane, run.passes[lane]);
  if (position.at_epoch_start() || position.epoch_done()) return id;
  start(member, run);
  position.had.for_each([&](std::size_t at_lane) {
    const auto lane = static_cast<std::uint32_t>(at_lane);
    use_up(member, run, lane);
    run.untaken -= position.sizes.blocks_of(lane);
  });
  for (const LanePosition::OpenLane& open : position.open)
    resume_lane(id, open.lane, open.pass, open.had);
  update_hunger(member);
  return id;
}

MemberId LaneMembers::add_strict(std::uint32_t tag, std::uint64_t epoch, const LaneSizes& sizes,
                                 std::uint64_t first_block, std::uint64_t end) {
  const MemberId id = take_slot(tag, true);
  LaneMember& member = members_[id.value];
  member.end = end;
  LaneRun& run = member.runs[0];
  enter(run, epoch, sizes);
  run.next_lane = static_cast<std::uint32_t>(first_block / sizes.lane_blocks);
  run.next_block = first_block;
  start(member, run);
  if (const std::uint64_t had = first_block % sizes.lane_blocks; had != 0) {
    Bitmap taken(sizes.blocks_of(run.next_lane));
    for (std::uint64_t block = 0; block < had; ++block) taken.set(block);
    resume_lane(id, run.next_lane, 0, taken);
  }
  expect_epochs(member, true);
  return id;
}

// The member has had the blocks in `taken`. Those that are not here were made once: other members
// make them again, after what was never made.
void LaneMembers::resume_lane(MemberId id, std::uint32_t lane, std::uint32_t number,
                              const Bitmap& taken) {
  LaneMember& member = members_[id.value];
  LaneRun& run = member.runs[0];
  use_up(member, run, lane);
  const std::uint32_t pass = find_or_open_pass(run.generation, lane, number);
  join_pass(id, 0, pass, taken);
  taken.for_each([&](std::size_t block) {
    if (passes_[pass].states[block] == BlockState::absent)
      change_state({pass, static_cast<std::uint32_t>(block), passes_[pass].serial},
                   BlockState::dropped);
  });
}

void LaneMembers::remove(MemberId id) {
  LaneMember& member = own(id);
  if (member.strict) expect_epochs(member, false);
  for (LaneRun& run : member.runs) {
    while (!run.open.empty()) leave_pass(run.open.back().member);
    if (run.active) stop(member, run);
    if (run.entered) leave(run);
  }
  member.used = false;
  members_.release(id.value);
}

void LaneMembers::set_look_ahead(MemberId id, std::uint32_t blocks) {
  own(id).look_ahead = blocks;
  update_hunger(own(id));
}

void LaneMembers::update_hunger(LaneMember& member) {
  const LaneRun& newest = member.newest_run();
  if (!newest.entered) return;
  const std::uint32_t spare = member.left - std::min(member.left, member.look_ahead);
  const bool hungry = 2 * std::uint64_t{spare} <= generations_[newest.generation].sizes.lane_blocks;
  if (hungry == member.hungry) return;
  member.hungry = hungry;
  demand_.hunger_changed(member);
}

// A strict member that stays will come to the generations that follow its newest epoch.
void LaneMembers::expect_epochs(LaneMember& member, bool stays) {
  if (member.end == 0) return;
  const std::uint64_t now = generations_[member.newest_run().generation].number;
  strict_.expect(member.coming, stays ? Coming{now, std::max(member.end, now + 1)} : Coming{});
}

// ------------------------------------------------------------------------------------ epochs ----

void LaneMembers::begin_epoch(MemberId id, std::uint64_t number, const LaneSizes& sizes) {
  LaneMember& member = own(id);
  const LaneRun& previous = member.runs[0];
  LaneRun next;
  enter(next, number, sizes);
  if (!member.strict) {
    generations_.observe(number);
    if (previous.entered && previous.generation == next.generation) {
      next.passes = previous.passes;
      next.epochs = previous.epochs;
    } else {
      next.passes.assign(sizes.lanes(), 0);
    }
  }
  LaneRun& run = member.runs[previous.active ? 1 : 0];
  if (run.entered) leave(run);
  run = std::move(next);
  start(member, run);
  update_hunger(member);
  if (member.strict) expect_epochs(member, true);
}

void LaneMembers::end_epoch(MemberId id) {
  LaneMember& member = own(id);
  LaneRun& run = member.runs[0];
  BF_CHECK(run.active);
  while (!run.open.empty()) leave_pass(run.open.back().member);
  end_running_epoch(member);
  update_hunger(member);
}

// All lanes of the generation lie before the run; a strict run begins at its next block.
void LaneMembers::start(LaneMember& member, LaneRun& run) {
  const Generation& generation = generations_[run.generation];
  const std::uint32_t lanes = generation.sizes.lanes();
  run.active = true;
  run.untaken = generation.sizes.blocks() -
                (member.strict ? generation.sizes.first_block_of(run.next_lane) : 0);
  run.lanes_left = member.strict ? lanes - run.next_lane : lanes;
  run.needs = Bitmap(lanes, !member.strict);
  if (member.strict) run.needs.set(run.next_lane);
  ++run.epochs;
  demand_.begin(member, run);
  if (member.strict && run.next_lane <= 1) strict_.begins(generation.number);
}

void LaneMembers::stop(LaneMember& member, LaneRun& run) {
  BF_CHECK(run.open.empty());
  demand_.end(member, run);
  if (member.strict && run.next_lane <= 1) strict_.has_begun(generations_[run.generation].number);
  run.needs = Bitmap(run.needs.size());
  run.lanes_left = 0;
  run.untaken = 0;
  run.active = false;
}

// The running epoch has been taken: the next one runs, if begun. The run that has ended stays
// entered, because the member's passes in its generation hold for the epoch that it will begin.
void LaneMembers::end_running_epoch(LaneMember& member) {
  stop(member, member.runs[0]);
  if (!member.runs[1].active) return;
  leave(member.runs[0]);
  member.runs[0] = std::move(member.runs[1]);
  member.runs[1] = LaneRun{};
  for (const LaneRun::Open& open : member.runs[0].open) passes_.run_epoch(open.member);
}

void LaneMembers::enter(LaneRun& run, std::uint64_t number, const LaneSizes& sizes) {
  std::uint32_t slot = generations_.find(number, sizes);
  if (slot == kNone) {
    slot = generations_.open(number, sizes);
    passes_.begin_generation(slot, sizes.lanes());
    demand_.begin_generation(slot, sizes.lanes());
    changed_.begin_generation(slot, sizes.lanes());
    strict_.choice_changed(number);
  }
  generations_.use(slot);
  run.generation = slot;
  run.entered = true;
}

void LaneMembers::leave(LaneRun& run) {
  run.entered = false;
  release_generation(run.generation);
}

void LaneMembers::release_generation(std::uint32_t slot) {
  if (!generations_.release(slot)) return;
  changed_.end_generation(slot);
  strict_.choice_changed(generations_[slot].number);
}

// -------------------------------------------------------------------------- lanes and blocks ----

// The run no longer needs `lane`: it opens it, or has had it.
void LaneMembers::use_up(LaneMember& member, LaneRun& run, std::uint32_t lane) {
  BF_CHECK(run.needs.test(lane));
  demand_.use_up(member, run, lane);
  run.needs.reset(lane);
  --run.lanes_left;
  if (!member.strict) return;
  if (++run.next_lane == 2) strict_.has_begun(generations_[run.generation].number);
  if (run.lanes_left != 0) run.needs.set(run.next_lane);
}

std::uint32_t LaneMembers::open_lane(MemberId id, std::uint32_t number, std::uint32_t lane,
                                     std::uint32_t pass_number) {
  LaneMember& member = own(id);
  LaneRun& run = member.runs[number];
  // The order decides which lanes count as changed, and so what a recorded journal replays.
  if (member.strict) use_up(member, run, lane);
  const std::uint32_t pass = find_or_open_pass(run.generation, lane, pass_number);
  if (!member.strict) {
    use_up(member, run, lane);
    run.passes[lane] = static_cast<std::uint8_t>(pass_number + 1);
  }
  return join_pass(id, number, pass, Bitmap(passes_[pass].blocks()));
}

bool LaneMembers::take(MemberId id, BlockRef ref) {
  LaneMember& member = own(id);
  LaneRun& run = member.runs[0];
  const Pass& pass = passes_.at(ref);
  BF_CHECK(run.active && pass.states[ref.block] == BlockState::resident);
  const std::uint32_t slot = find_open(run, ref.pass);
  BF_CHECK_MSG(slot != kNone, "the block's lane is not open to the member");
  const bool was_last = passes_.take(slot, ref.block);
  if (member.strict) {
    const LaneSizes& sizes = generations_[pass.generation].sizes;
    BF_CHECK(sizes.first_block_of(pass.lane) + ref.block == run.next_block++);
  }
  --run.untaken;
  --run.here;
  --member.left;
  if (was_last) leave_pass(slot);
  const bool ended = run.untaken == 0;
  if (ended) end_running_epoch(member);
  update_hunger(member);
  return ended;
}

void LaneMembers::change_state(BlockRef ref, BlockState state) {
  const Pass& pass = passes_[ref.pass];
  const bool could_be_joined = pass.may_be_joined();
  passes_.move(ref, state, [this](const PassMember& in_pass, int here, int dropped) {
    LaneMember& member = members_[in_pass.member.value];
    member.runs[in_pass.run].here += static_cast<std::uint32_t>(here);
    member.left -= static_cast<std::uint32_t>(dropped);
    if (dropped != 0) update_hunger(member);
  });
  if (pass.may_be_joined() != could_be_joined) changed_.lane_changed(pass.generation, pass.lane);
  close_pass_if_done(ref.pass);
}

std::uint32_t LaneMembers::find_or_open_pass(std::uint32_t generation, std::uint32_t lane,
                                             std::uint32_t number) {
  const std::uint32_t found = passes_.find(generation, lane, number);
  if (found != kNone) return found;
  const bool is_new = number >= passes_.lanes(generation)[lane].next_number;
  const std::uint32_t slot =
      passes_.open(generation, lane, number, generations_[generation].sizes.blocks_of(lane));
  generations_.use(generation);
  demand_.pass_opened(slot, is_new, members_);
  return slot;
}

// From now on the member has the pass open, without the blocks in `taken`.
std::uint32_t LaneMembers::join_pass(MemberId id, std::uint32_t number, std::uint32_t pass,
                                     const Bitmap& taken) {
  const std::uint32_t slot = passes_.join(id, number, pass, taken);
  const PassMember& in_pass = passes_.member(slot);
  LaneMember& member = members_[id.value];
  LaneRun& run = member.runs[number];
  run.open.push_back({slot, run.passed});
  run.passed = 0;
  run.here += in_pass.here;
  run.untaken -= passes_[pass].blocks() - in_pass.untaken;
  member.left += in_pass.untaken - in_pass.dropped;
  update_hunger(member);
  return slot;
}

// The member has taken the last block of the pass, or leaves it.
void LaneMembers::leave_pass(std::uint32_t slot) {
  const PassMember& in_pass = passes_.member(slot);
  const Pass& pass = passes_[in_pass.pass];
  LaneMember& member = members_[in_pass.member.value];
  LaneRun& run = member.runs[in_pass.run];
  run.here -= in_pass.here;
  member.left -= in_pass.untaken - in_pass.dropped;
  const auto open = std::find_if(run.open.begin(), run.open.end(),
                                 [&](const LaneRun::Open& one) { return one.member == slot; });
  const std::uint32_t passed = open->passed + pass.blocks();
  const auto next = run.open.erase(open);
  (next == run.open.end() ? run.passed : next->passed) += passed;
  if (in_pass.untaken != 0 || pass.members.size() == 1)
    changed_.lane_changed(pass.generation, pass.lane);
  const std::uint32_t pass_slot = in_pass.pass;
  passes_.leave(slot);
  close_pass_if_done(pass_slot);
}

void LaneMembers::close_pass_if_done(std::uint32_t slot) {
  if (passes_.close_if_done(slot)) release_generation(passes_[slot].generation);
}

std::uint32_t LaneMembers::find_open(const LaneRun& run, std::uint32_t pass) const {
  for (const LaneRun::Open& open : run.open)
    if (passes_.member(open.member).pass == pass) return open.member;
  return kNone;
}

// ----------------------------------------------------------------------------------- recount ----

void LaneMembers::check() const {
  std::vector<std::uint32_t> uses(generations_.size(), 0);
  for (std::uint32_t slot = 0; slot < members_.size(); ++slot) {
    const LaneMember& member = members_[slot];
    if (!member.used) continue;
    std::uint32_t left = 0;
    for (const LaneRun& run : member.runs) {
      if (run.entered) ++uses[run.generation];
      if (run.active) check_run(member, run);
      for (const LaneRun::Open& open : run.open) {
        const PassMember& in_pass = passes_.member(open.member);
        BF_CHECK(in_pass.member == MemberId(slot));
        BF_CHECK(in_pass.run == static_cast<std::uint32_t>(&run - member.runs.data()));
        left += in_pass.untaken - in_pass.dropped;
      }
    }
    BF_CHECK(member.left == left);
  }
  for (std::uint32_t slot = 0; slot < generations_.size(); ++slot) {
    const Generation& generation = generations_[slot];
    if (generation.uses == 0) continue;
    for (const LanePasses::Lane& lane : passes_.lanes(slot)) {
      uses[slot] += static_cast<std::uint32_t>(lane.open.size());
      for (const std::uint32_t pass : lane.open) demand_.check_pass(pass, members_);
    }
    BF_CHECK(generation.uses == uses[slot]);
    strict_.check(generation, members_);
    demand_.check_generation(slot, members_);
  }
}

void LaneMembers::check_run(const LaneMember& member, const LaneRun& run) const {
  const Generation& generation = generations_[run.generation];
  BF_CHECK(run.entered && generation.uses != 0);
  std::uint64_t untaken = 0;
  std::uint32_t here = 0;
  for (const LaneRun::Open& open : run.open) {
    const PassMember& in_pass = passes_.member(open.member);
    const Pass& pass = passes_[in_pass.pass];
    BF_CHECK(pass.generation == run.generation && !run.needs.test(pass.lane));
    if (!member.strict) BF_CHECK(run.passes[pass.lane] == pass.number + 1);
    untaken += in_pass.untaken;
    here += in_pass.here;
  }
  if (member.strict) {
    for (std::uint32_t lane = run.next_lane; lane < generation.sizes.lanes(); ++lane)
      untaken += generation.sizes.blocks_of(lane);
    BF_CHECK(run.untaken == generation.sizes.blocks() - run.next_block);
    BF_CHECK(run.lanes_left == generation.sizes.lanes() - run.next_lane);
  } else {
    run.needs.for_each([&](std::size_t lane) {
      untaken += generation.sizes.blocks_of(static_cast<std::uint32_t>(lane));
    });
    BF_CHECK(run.lanes_left == run.needs.count());
  }
  BF_CHECK(run.untaken == untaken && run.here == here);
}

}  // namespace batchflow::order
