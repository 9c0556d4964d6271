#include "core/order/lane_demand.h"

#include "core/base/check.h"

namespace batchflow::order {

void LaneDemand::begin_generation(std::uint32_t slot, std::uint32_t lanes) {
  if (slot >= generations_.size()) generations_.resize(slot + 1);
  generations_[slot].lanes.assign(lanes, {});
}

// No member has had a pass that was never opened.
void LaneDemand::pass_opened(std::uint32_t slot, bool is_new, const LaneMemberTable& members) {
  if (slot >= wanted_.size()) wanted_.resize(slot + 1);
  const Pass& pass = passes_[slot];
  wanted_[slot] = is_new ? generations_[pass.generation].lanes[pass.lane].relaxed.members
                         : count_wanted(slot, members);
}

void LaneDemand::begin(const LaneMember& member, const LaneRun& run) {
  ++runs_with_lanes_left(member, run);
  change(member, run, +1);
  if (member.strict) change_strict_ahead(run, +1);
}

void LaneDemand::use_up(const LaneMember& member, const LaneRun& run, std::uint32_t lane) {
  change(member, run, -1, lane);
  if (run.lanes_left == 1) --runs_with_lanes_left(member, run);
  if (!member.strict) return;
  --generations_[run.generation].lanes[lane].strict_ahead;
  changed_.lane_changed(run.generation, lane);
  if (run.lanes_left > 1) change(member, run, +1, lane + 1);
}

void LaneDemand::end(const LaneMember& member, const LaneRun& run) {
  change(member, run, -1);
  if (member.strict) change_strict_ahead(run, -1);
  if (run.lanes_left != 0) --runs_with_lanes_left(member, run);
}

void LaneDemand::hunger_changed(const LaneMember& member) {
  const auto change_by = static_cast<std::uint32_t>(member.hungry ? +1 : -1);
  for (const LaneRun& run : member.runs) {
    if (!run.active) continue;
    run.needs.for_each([&](std::size_t lane) { count(member, run, lane).hungry += change_by; });
  }
}

void LaneDemand::change(const LaneMember& member, const LaneRun& run, int change_by) {
  run.needs.for_each(
      [&](std::size_t lane) { change(member, run, change_by, static_cast<std::uint32_t>(lane)); });
}

void LaneDemand::change(const LaneMember& member, const LaneRun& run, int change_by,
                        std::uint32_t lane) {
  Count& of_lane = count(member, run, lane);
  of_lane.members += static_cast<std::uint32_t>(change_by);
  if (member.hungry) of_lane.hungry += static_cast<std::uint32_t>(change_by);
  if (member.strict) return;
  for (const std::uint32_t pass : passes_.lanes(run.generation)[lane].open)
    if (passes_[pass].number >= run.passes[lane])
      wanted_[pass] += static_cast<std::uint32_t>(change_by);
  changed_.lane_changed(run.generation, lane);
}

void LaneDemand::change_strict_ahead(const LaneRun& run, int change_by) {
  std::vector<Lane>& lanes = generations_[run.generation].lanes;
  for (std::uint32_t lane = run.next_lane; lane < lanes.size(); ++lane) {
    lanes[lane].strict_ahead += static_cast<std::uint32_t>(change_by);
    changed_.lane_changed(run.generation, lane);
  }
}

// ---------------------------------------------------------------------------------- recount ----

std::uint32_t LaneDemand::count_wanted(std::uint32_t slot, const LaneMemberTable& members) const {
  const Pass& pass = passes_[slot];
  if (generations_[pass.generation].lanes[pass.lane].relaxed.members == 0) return 0;
  std::uint32_t count = 0;
  for (std::uint32_t at = 0; at < members.size(); ++at) {
    if (!members[at].used || members[at].strict) continue;
    for (const LaneRun& run : members[at].runs) {
      if (run.active && run.generation == pass.generation && run.needs.test(pass.lane) &&
          run.passes[pass.lane] <= pass.number)
        ++count;
    }
  }
  return count;
}

void LaneDemand::check_pass(std::uint32_t pass, const LaneMemberTable& members) const {
  BF_CHECK(wanted_[pass] == count_wanted(pass, members));
}

void LaneDemand::check_generation(std::uint32_t slot, const LaneMemberTable& members) const {
  Demand recount;
  recount.lanes.resize(generations_[slot].lanes.size());
  for (std::uint32_t at = 0; at < members.size(); ++at) {
    const LaneMember& member = members[at];
    if (!member.used) continue;
    for (const LaneRun& run : member.runs) {
      if (!run.active || run.generation != slot) continue;
      if (run.lanes_left != 0)
        ++(member.strict ? recount.strict_runs_with_lanes_left : recount.runs_with_lanes_left);
      run.needs.for_each([&](std::size_t lane) {
        Count& count = member.strict ? recount.lanes[lane].strict : recount.lanes[lane].relaxed;
        ++count.members;
        count.hungry += member.hungry ? 1 : 0;
      });
      if (!member.strict) continue;
      for (auto lane = run.next_lane; lane < recount.lanes.size(); ++lane)
        ++recount.lanes[lane].strict_ahead;
    }
  }
  BF_CHECK(generations_[slot] == recount);
}

}  // namespace batchflow::order
