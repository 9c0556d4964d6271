// The members of a stream's lanes: in which epochs each is, which lanes it has had, and whether it
// is hungry. Lanes says what they do, and LaneRules which lane comes next.
//
// A member is hungry when the open lanes of both its epochs have at most L/2 blocks that are
// neither taken nor dropped, beyond what the engine keeps ahead anyway (`set_look_ahead`).
//
// All that changes with a member is changed from here: its generation, its passes, and what is
// counted of needs.
#pragma once

#include <cstdint>

#include "core/base/check.h"
#include "core/order/changed_needs.h"
#include "core/order/generations.h"
#include "core/order/lane_demand.h"
#include "core/order/lane_member.h"
#include "core/order/lane_passes.h"
#include "core/order/lane_position.h"
#include "core/order/strict_epochs.h"

namespace batchflow::order {

class LaneMembers {
 public:
  LaneMembers(Generations& generations, LanePasses& passes, LaneDemand& demand,
              StrictEpochs& strict, ChangedNeeds& changed)
      : generations_(generations),
        passes_(passes),
        demand_(demand),
        strict_(strict),
        changed_(changed) {}

  const LaneMember& at(MemberId id) const {
    BF_CHECK_MSG(id.value < members_.size() && members_[id.value].used, "no such member");
    return members_[id.value];
  }
  std::size_t used() const { return members_.used(); }
  // The slot of the member in a pass that it has open in this run, or kNone.
  std::uint32_t find_open(const LaneRun& run, std::uint32_t pass) const;

  // A relaxed member without an epoch.
  MemberId add(std::uint32_t tag);
  // It is in the epoch that the position is in. At an epoch's end or start it has no epoch, but
  // the passes it has had in its generation.
  MemberId add(std::uint32_t tag, const LanePosition& position);
  MemberId add_strict(std::uint32_t tag, std::uint64_t epoch, const LaneSizes& sizes,
                      std::uint64_t first_block, std::uint64_t end);
  void remove(MemberId id);
  void set_look_ahead(MemberId id, std::uint32_t blocks);

  // Begins an epoch in that generation: the running one, or else the next.
  void begin_epoch(MemberId id, std::uint64_t number, const LaneSizes& sizes);
  // Gives up what is left of the running epoch. REQUIRES: it is active
  void end_epoch(MemberId id);
  // Joins the pass, which is opened if it is not open. Answers the slot of the pass member.
  std::uint32_t open_lane(MemberId id, std::uint32_t run, std::uint32_t lane, std::uint32_t pass);
  // True if that was the last block of the running epoch.
  bool take(MemberId id, BlockRef ref);
  // The block is in that state from now on.
  void change_state(BlockRef ref, BlockState state);

  // Recounts members, and what is counted of them elsewhere.
  void check() const;

 private:
  LaneMember& own(MemberId id) { return const_cast<LaneMember&>(at(id)); }
  MemberId take_slot(std::uint32_t tag, bool strict);
  void update_hunger(LaneMember& member);
  void expect_epochs(LaneMember& member, bool stays);

  void start(LaneMember& member, LaneRun& run);
  void stop(LaneMember& member, LaneRun& run);
  void end_running_epoch(LaneMember& member);
  void enter(LaneRun& run, std::uint64_t number, const LaneSizes& sizes);
  void leave(LaneRun& run);
  void release_generation(std::uint32_t slot);

  void use_up(LaneMember& member, LaneRun& run, std::uint32_t lane);
  void resume_lane(MemberId id, std::uint32_t lane, std::uint32_t pass, const Bitmap& taken);
  std::uint32_t find_or_open_pass(std::uint32_t generation, std::uint32_t lane,
                                  std::uint32_t number);
  std::uint32_t join_pass(MemberId id, std::uint32_t run, std::uint32_t pass, const Bitmap& taken);
  void leave_pass(std::uint32_t pass_member);
  void close_pass_if_done(std::uint32_t pass);

  void check_run(const LaneMember& member, const LaneRun& run) const;

  Generations& generations_;
  LanePasses& passes_;
  LaneDemand& demand_;
  StrictEpochs& strict_;
  ChangedNeeds& changed_;
  LaneMemberTable members_;
};

}  // namespace batchflow::order
