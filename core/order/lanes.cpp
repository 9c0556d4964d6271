// Members: which member is in which epoch. lane_rules.cpp has the rules of what is made,
// lane_generations.cpp in which generation an epoch begins.
#include "core/order/lanes.h"

#include <algorithm>

#include "core/base/check.h"

namespace batchflow::order {

Lanes::Lanes(const Options& options) : options_(options) {
  BF_CHECK(options.passes_most >= 1 && options.passes_most <= 254);
  BF_CHECK(options.generation_epochs >= 1 && options.ready_window >= 1);
  BF_CHECK(options.open_lanes_most >= 1);
  set_sizes(options.sizes);
}

void Lanes::set_sizes(const LaneSizes& sizes) {
  BF_CHECK(sizes.samples > 0 && sizes.block_samples > 0 && sizes.lane_blocks > 0);
  if (options_.sizes == sizes) return;
  options_.sizes = sizes;
  for (const std::uint64_t number : cut_otherwise_) strict_choice_changed(number);
}

void Lanes::observe(std::uint64_t generation) {
  BF_CHECK(generation <= LanePosition::kGenerationMost);
  next_generation_ = std::max(next_generation_, generation + 1);
}

// ------------------------------------------------------------------------------------ members ----

MemberId Lanes::new_member(std::uint32_t tag, bool strict) {
  const MemberId id(members_.take());
  Member& member = members_[id.value];
  member = Member{};
  member.used = true;
  member.strict = strict;
  member.hungry = true;
  member.tag = tag;
  return id;
}

MemberId Lanes::add_relaxed(std::uint32_t tag) {
  const MemberId id = new_member(tag, false);
  begin_next_epoch(id);
  return id;
}

MemberId Lanes::add_relaxed(std::uint32_t tag, const LanePosition& position) {
  if (position.sizes.samples == 0) return add_relaxed(tag);
  BF_CHECK(position.consistent(options_.passes_most));
  observe(position.generation);
  const MemberId id = new_member(tag, false);
  Run& run = members_[id.value].runs[0];
  enter(run, use_generation(position.generation, position.sizes));
  run.passes = position.passes;
  Generation& generation = generations_[run.generation];
  for (std::uint32_t lane = 0; lane < run.passes.size(); ++lane)
    generation.next_pass[lane] =
        std::max<std::uint32_t>(generation.next_pass[lane], run.passes[lane]);
  if (position.at_epoch_start() || position.epoch_done()) {
    begin_next_epoch(id);
  } else {
    start(members_[id.value], run);
    resume(id, position);
  }
  return id;
}

// Takes the lanes and blocks that the position says were had.
void Lanes::resume(MemberId id, const LanePosition& position) {
  Member& member = members_[id.value];
  Run& run = member.runs[0];
  position.had.for_each([&](std::size_t lane) {
    use_up(member, run, static_cast<std::uint32_t>(lane));
    run.untaken -= generations_[run.generation].sizes.blocks_of(static_cast<std::uint32_t>(lane));
  });
  for (const LanePosition::OpenLane& open : position.open) {
    use_up(member, run, open.lane);
    join_pass(id, 0, find_or_open_pass(run.generation, open.lane, open.pass), &open.had);
  }
  update_hunger(member);
}

MemberId Lanes::add_strict(std::uint32_t tag, std::uint64_t epoch, std::uint64_t first_block,
                           std::uint64_t end) {
  BF_CHECK(first_block < options_.sizes.blocks());
  const MemberId id = new_member(tag, true);
  Member& member = members_[id.value];
  member.end = end;
  Run& run = member.runs[0];
  enter(run, use_strict_generation(epoch));
  const LaneSizes sizes = generations_[run.generation].sizes;
  run.next_lane = static_cast<std::uint32_t>(first_block / sizes.lane_blocks);
  run.next_block = first_block;
  start(member, run);
  if (const std::uint64_t had = first_block % sizes.lane_blocks; had != 0) {
    const std::uint32_t lane = run.next_lane;
    Bitmap taken(sizes.blocks_of(lane));
    for (std::uint64_t block = 0; block < had; ++block) taken.set(block);
    use_up(member, run, lane);
    join_pass(id, 0, find_or_open_pass(run.generation, lane, 0), &taken);
    update_hunger(member);
  }
  note_strict(member, true);
  return id;
}

void Lanes::remove(MemberId id) {
  Member& member = at(id);
  if (member.strict) note_strict(member, false);
  for (Run& run : member.runs) {
    while (!run.open.empty()) leave_pass(run.open.back());
    if (run.active) stop(member, run);
    if (run.entered) leave(run);
  }
  member.used = false;
  members_.release(id.value);
}

void Lanes::set_look_ahead(MemberId id, std::uint32_t blocks) {
  at(id).look_ahead = blocks;
  update_hunger(at(id));
}

// A member is hungry if it has at most half a lane left beyond its look-ahead.
void Lanes::update_hunger(Member& member) {
  const Run& newest = newest_run(member);
  if (!newest.entered) return;
  const std::uint32_t spare = member.left - std::min(member.left, member.look_ahead);
  const bool hungry = 2 * std::uint64_t{spare} <= generations_[newest.generation].sizes.lane_blocks;
  if (hungry == member.hungry) return;
  member.hungry = hungry;
  for (const Run& run : member.runs) {
    if (!run.active) continue;
    run.needs.for_each([&](std::size_t lane) {
      demand(member, run, static_cast<std::uint32_t>(lane)).hungry +=
          static_cast<std::uint32_t>(hungry ? +1 : -1);
    });
  }
}

// -------------------------------------------------------------------------- epochs of members ----

void Lanes::begin_next_epoch(MemberId id) {
  const Member& member = at(id);
  begin_next_epoch(id, member.strict ? generations_[member.runs[0].generation].number + 1 : 0);
}

void Lanes::begin_next_epoch(MemberId id, std::uint64_t strict_generation) {
  BF_CHECK(may_begin_next_epoch(id));
  Member& member = at(id);
  Run& previous = member.runs[0];
  Run next;
  if (member.strict) {
    enter(next, use_strict_generation(strict_generation));
  } else {
    enter(next, choose_generation(previous));
    if (previous.entered && previous.generation == next.generation) {
      next.passes = previous.passes;
      next.epochs = previous.epochs;
    } else {
      next.passes.assign(generations_[next.generation].sizes.lanes(), 0);
    }
  }
  Run& run = member.runs[previous.active ? 1 : 0];
  if (run.entered) leave(run);
  run = std::move(next);
  start(member, run);
  update_hunger(member);
  if (member.strict) note_strict(member, true);
}

void Lanes::end_epoch(MemberId id) {
  Member& member = at(id);
  Run& run = member.runs[0];
  BF_CHECK(run.active);
  while (!run.open.empty()) leave_pass(run.open.back());
  end_running_epoch(member);
  update_hunger(member);
}

bool Lanes::may_begin_next_epoch(MemberId id) const {
  const Member& member = at(id);
  const Run& run = member.runs[0];
  return !run.active || (!member.runs[1].active && run.lanes_left == 0 && run.untaken == run.here);
}

// All lanes of the generation lie before the run; a strict run begins at its next block.
void Lanes::start(Member& member, Run& run) {
  Generation& generation = generations_[run.generation];
  const std::uint32_t lanes = generation.sizes.lanes();
  run.active = true;
  run.untaken = generation.sizes.blocks() -
                (member.strict ? generation.sizes.first_block_of(run.next_lane) : 0);
  run.lanes_left = member.strict ? lanes - run.next_lane : lanes;
  run.needs = Bitmap(lanes, !member.strict);
  if (member.strict) run.needs.set(run.next_lane);
  ++run.epochs;
  ++(member.strict ? generation.strict_runs_with_lanes_left : generation.runs_with_lanes_left);
  change_demand(member, run, +1);
  if (!member.strict) return;
  change_strict_ahead(run, +1);
  if (run.next_lane <= 1) ++strict_beginning_[generation.number];
}

// The run no longer needs `lane`: it opens it, or has had it.
void Lanes::use_up(Member& member, Run& run, std::uint32_t lane) {
  Generation& generation = generations_[run.generation];
  BF_CHECK(run.needs.test(lane));
  change_demand(member, run, -1, lane);
  run.needs.reset(lane);
  if (member.strict) {
    --generation.strict_ahead[lane];
    needs_changed(run.generation, lane);
    if (++run.next_lane == 2) began(generation.number);
    if (run.next_lane < generation.sizes.lanes()) {
      run.needs.set(run.next_lane);
      change_demand(member, run, +1, run.next_lane);
    }
  }
  if (--run.lanes_left == 0)
    --(member.strict ? generation.strict_runs_with_lanes_left : generation.runs_with_lanes_left);
}

void Lanes::stop(Member& member, Run& run) {
  BF_CHECK(run.open.empty());
  Generation& generation = generations_[run.generation];
  change_demand(member, run, -1);
  if (member.strict) change_strict_ahead(run, -1);
  if (member.strict && run.next_lane <= 1) began(generation.number);
  if (run.lanes_left != 0)
    --(member.strict ? generation.strict_runs_with_lanes_left : generation.runs_with_lanes_left);
  run.needs = Bitmap(run.needs.size());
  run.lanes_left = 0;
  run.untaken = 0;
  run.active = false;
}

// The running epoch has been taken: the next one runs, if begun. The run that has ended stays
// entered, because the member's passes in its generation hold for the epoch that it will begin.
void Lanes::end_running_epoch(Member& member) {
  stop(member, member.runs[0]);
  if (!member.runs[1].active) return;
  leave(member.runs[0]);
  member.runs[0] = std::move(member.runs[1]);
  member.runs[1] = Run{};
  for (const std::uint32_t slot : member.runs[0].open) pass_members_[slot].run = 0;
}

void Lanes::change_demand(const Member& member, const Run& run, int by) {
  run.needs.for_each(
      [&](std::size_t lane) { change_demand(member, run, by, static_cast<std::uint32_t>(lane)); });
}

void Lanes::change_demand(const Member& member, const Run& run, int by, std::uint32_t lane) {
  Demand& of_lane = demand(member, run, lane);
  of_lane.members += static_cast<std::uint32_t>(by);
  if (member.hungry) of_lane.hungry += static_cast<std::uint32_t>(by);
  if (member.strict) return;
  for (const std::uint32_t pass : generations_[run.generation].open[lane])
    if (passes_[pass].number >= run.passes[lane])
      passes_[pass].wanted += static_cast<std::uint32_t>(by);
  needs_changed(run.generation, lane);
}

Demand& Lanes::demand(const Member& member, const Run& run, std::uint32_t lane) {
  Generation& generation = generations_[run.generation];
  return (member.strict ? generation.strict_demand : generation.demand)[lane];
}

// A strict run needs one lane after the other: only the next one is its demand, but it will take
// all that follow.
void Lanes::change_strict_ahead(const Run& run, int by) {
  Generation& generation = generations_[run.generation];
  for (std::uint32_t lane = run.next_lane; lane < generation.sizes.lanes(); ++lane) {
    generation.strict_ahead[lane] += static_cast<std::uint32_t>(by);
    needs_changed(run.generation, lane);
  }
}

// A strict epoch is beyond its first lane, or over.
void Lanes::began(std::uint64_t number) {
  const auto found = strict_beginning_.find(number);
  if (--found->second == 0) strict_beginning_.erase(found);
}

// A strict member will come to the generations that follow its newest epoch, as far as is known.
void Lanes::note_strict(Member& member, bool there) {
  if (member.end == 0) return;
  const std::uint64_t after = generations_[newest_run(member).generation].number;
  const std::uint64_t before = there ? std::max(member.end, after + 1) : 0;
  const auto replace = [](std::vector<std::uint64_t>& sorted, std::uint64_t& old, std::uint64_t now,
                          bool was, bool is) {
    if (was) sorted.erase(std::lower_bound(sorted.begin(), sorted.end(), old));
    if (is) sorted.insert(std::lower_bound(sorted.begin(), sorted.end(), now), now);
    old = now;
  };
  const std::uint64_t old_after = member.comes_after;
  const std::uint64_t old_before = member.comes_before;  // 0: it was not noted yet
  replace(strict_after_, member.comes_after, after, old_before != 0, there);
  replace(strict_before_, member.comes_before, before, old_before != 0, there);
  if (old_before == 0 || !there) {
    strict_to_come_changed(after + 1, there ? before : old_before);
  } else {
    strict_to_come_changed(std::min(old_after, after) + 1,
                           std::min(std::max(old_after, after) + 1, member.end));
  }
}

// How many strict members in an earlier epoch will come to this generation, as things are.
std::uint32_t Lanes::strict_to_come(const Generation& generation) const {
  const std::uint64_t number = generation.number;
  if (strict_after_.empty() ||
      find_strict_generation(number) != find_generation(number, generation.sizes)) {
    return 0;
  }
  const auto come_after = std::lower_bound(strict_after_.begin(), strict_after_.end(), number);
  const auto come_before = std::upper_bound(strict_before_.begin(), strict_before_.end(), number);
  return static_cast<std::uint32_t>((come_after - strict_after_.begin()) -
                                    (come_before - strict_before_.begin()));
}

// Other members than before come to generations with numbers in [from, to). If these are many, they
// are looked at later, some at a time.
void Lanes::strict_to_come_changed(std::uint64_t from, std::uint64_t to) {
  constexpr std::size_t kGenerationsAtOnce = 16;
  std::vector<std::uint32_t> slots;
  for (auto at = by_number_.lower_bound(from); at != by_number_.end() && at->first < to; ++at) {
    if (slots.size() >= kGenerationsAtOnce) {
      const bool is_first = changed_from_ >= changed_to_;
      changed_from_ = is_first ? from : std::min(changed_from_, from);
      changed_to_ = is_first ? to : std::max(changed_to_, to);
      return report_changed_needs();
    }
    slots.insert(slots.end(), at->second.begin(), at->second.end());
  }
  std::sort(slots.begin(), slots.end());
  for (const std::uint32_t slot : slots) all_needs_changed(slot);
}

// True: there may be something in `changed_` now, or in the next generation.
bool Lanes::visit_next_generation() {
  if (changed_from_ >= changed_to_) return false;
  const auto at = by_number_.lower_bound(changed_from_);
  if (at == by_number_.end() || at->first >= changed_to_) {
    changed_from_ = changed_to_ = 0;
    return false;
  }
  changed_from_ = at->first + 1;
  for (const std::uint32_t slot : at->second) all_needs_changed(slot);
  return true;
}

void Lanes::all_needs_changed(std::uint32_t slot) {
  const std::uint32_t lanes = generations_[slot].sizes.lanes();
  for (std::uint32_t lane = 0; lane < lanes; ++lane) needs_changed(slot, lane);
}

void Lanes::needs_changed(std::uint32_t slot, std::uint32_t lane) {
  Generation& generation = generations_[slot];
  if (generation.open[lane].empty() || generation.changed[lane]) return;
  generation.changed[lane] = true;
  if (changed_.empty()) report_changed_needs();
  changed_.push_back({slot, lane});
}

void Lanes::report_changed_needs() {
  if (report_changed_needs_) report_changed_needs_();
}

}  // namespace batchflow::order
