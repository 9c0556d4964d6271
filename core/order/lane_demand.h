// How many members need each lane of a generation, and how many may yet join each pass.
//
// A member needs a lane that is still to come in its running epoch, or in the epoch begun ahead. A
// strict member needs the next lane of its sequence and no other, in pass 0, so it attracts a
// relaxed member only there. But it will take all lanes that follow, which `strict_ahead` counts.
#pragma once

#include <cstdint>
#include <vector>

#include "core/order/changed_needs.h"
#include "core/order/lane_member.h"
#include "core/order/lane_passes.h"

namespace batchflow::order {

class LaneDemand {
 public:
  struct Count {
    std::uint32_t members = 0;
    std::uint32_t hungry = 0;
    friend bool operator==(const Count&, const Count&) = default;
  };
  struct Lane {
    Count relaxed;
    Count strict;
    std::uint32_t strict_ahead = 0;  // strict members in the epoch that have yet to open it
    friend bool operator==(const Lane&, const Lane&) = default;
  };
  struct Demand {
    std::vector<Lane> lanes;
    std::uint32_t runs_with_lanes_left = 0;  // of relaxed members
    std::uint32_t strict_runs_with_lanes_left = 0;
    friend bool operator==(const Demand&, const Demand&) = default;
  };

  LaneDemand(const LanePasses& passes, ChangedNeeds& changed)
      : passes_(passes), changed_(changed) {}

  const Demand& at(std::uint32_t generation) const { return generations_[generation]; }
  // Relaxed members that need the pass's lane and have had no later pass of it.
  std::uint32_t wanted(std::uint32_t pass) const { return wanted_[pass]; }

  // A generation has taken the slot.
  void begin_generation(std::uint32_t slot, std::uint32_t lanes);
  // A pass was opened. `is_new`: no member has had a pass of that number or above.
  void pass_opened(std::uint32_t pass, bool is_new, const LaneMemberTable& members);

  // The run has begun, with what it needs.
  void begin(const LaneMember& member, const LaneRun& run);
  // The run soon needs the lane no longer: it opens the lane, or has had it.
  void use_up(const LaneMember& member, const LaneRun& run, std::uint32_t lane);
  // The run is about to need nothing any more.
  void end(const LaneMember& member, const LaneRun& run);
  // The member has become hungry, or is hungry no longer.
  void hunger_changed(const LaneMember& member);

  // Recounts what is counted here, for the generation in a slot and for a pass.
  void check_generation(std::uint32_t slot, const LaneMemberTable& members) const;
  void check_pass(std::uint32_t pass, const LaneMemberTable& members) const;

 private:
  Count& count(const LaneMember& member, const LaneRun& run, std::size_t lane) {
    Lane& of_lane = generations_[run.generation].lanes[lane];
    return member.strict ? of_lane.strict : of_lane.relaxed;
  }
  std::uint32_t& runs_with_lanes_left(const LaneMember& member, const LaneRun& run) {
    Demand& demand = generations_[run.generation];
    return member.strict ? demand.strict_runs_with_lanes_left : demand.runs_with_lanes_left;
  }
  void change(const LaneMember& member, const LaneRun& run, int change_by);
  void change(const LaneMember& member, const LaneRun& run, int change_by, std::uint32_t lane);
  void change_strict_ahead(const LaneRun& run, int change_by);
  std::uint32_t count_wanted(std::uint32_t pass, const LaneMemberTable& members) const;

  const LanePasses& passes_;
  ChangedNeeds& changed_;
  std::vector<Demand> generations_;    // by slot
  std::vector<std::uint32_t> wanted_;  // by slot of a pass
};

}  // namespace batchflow::order
