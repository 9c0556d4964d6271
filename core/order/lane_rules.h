// The rules of the relaxed order (docs/order.md, section 3): which block a member takes, which is
// made for it, which lane it joins or opens, and in which generation an epoch begins. They change
// nothing: Lanes has LaneMembers do what they answer.
//
// They leave some cases open, which are decided here. The table of
// tests/core/lanes_sharing_test.cpp holds with these decisions:
//  - A pass is open to others while a member is in it: has joined it and has not yet taken all
//    of it. A pass that all members have left is not joined, though blocks of it may be here:
//    joining such passes cost jobs of unequal speed more.
//  - Of passes with equally many dropped blocks the newest is joined. A block counts as dropped
//    while it is gone, even if a member had it before. A remade block no longer counts as dropped.
//  - Which members are hungry: core/order/lane_members.h. Which of them need a lane, in rule 4:
//    core/order/lane_demand.h.
//  - i of rule 4 counts the passes opened in the generation. After a restart it begins anew.
//  - A job that begins an epoch looks at the newest generation. If it comes from an older one, it
//    follows into the newest only if other jobs have lanes left there. Epochs spent in a
//    generation are not part of a position, and count anew after a restore.
//  - A job has a generation number in one cut only: draws do not depend on B and L, so a job
//    never goes from (g, B, L) to (g, B', L').
//  - A generation in which a lane has used its last pass takes no new epoch. A job that is in it
//    finishes by the least pass above its own last that no member has open; this pass is made
//    again from its lineage, and is new to the job. Where there is none, any open pass will do.
//  - The lanes of a strict job count as left to join only for jobs new to that generation. It
//    counts as just starting while it is in its first lane.
//  - The span of `ready_window` counts blocks that are here or were taken. Blocks that were lost or
//    failed and are made again are listed but start no span, or jobs would wait for another's
//    remake.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/order/generations.h"
#include "core/order/lane_demand.h"
#include "core/order/lane_member.h"
#include "core/order/lane_passes.h"
#include "core/order/lanes.h"
#include "core/order/strict_epochs.h"

namespace batchflow::order {

class LaneRules {
 public:
  LaneRules(const Lanes::Options& options, const Generations& generations, const LanePasses& passes,
            const LaneDemand& demand, const StrictEpochs& strict)
      : options_(options),
        generations_(generations),
        passes_(passes),
        demand_(demand),
        strict_(strict) {}

  // Rule 1: as Lanes promises it.
  void candidates(const LaneMember& member, std::vector<Lanes::Candidate>& out,
                  bool to_first_ready) const;
  std::uint32_t supply(const LaneMember& member) const;

  // Rule 2: the first block of its open lanes that was never made. Of a strict run: the first of
  // its sequence that is not here, whatever the reason.
  Lanes::Need next_block(const LaneMember& member, const LaneRun& run) const;
  // Rules 3 and 4: the pass that it joins, or opens and joins.
  struct Lane {
    std::uint32_t lane;
    std::uint32_t pass;
  };
  std::optional<Lane> next_lane(const LaneMember& member, const LaneRun& run) const;
  // What the member needs of the pass that it has just joined.
  Lanes::Need first_need(const LaneMember& member, const PassMember& in_pass) const;
  // Rule 5: the first block of its open lanes that was dropped.
  Lanes::Need lost_block(const LaneRun& run) const;

  bool may_begin_next_epoch(const LaneMember& member) const;
  // The generation of a relaxed epoch that begins after this one.
  struct Cut {
    std::uint64_t generation;
    LaneSizes sizes;
  };
  Cut next_generation(const LaneRun& previous) const;

 private:
  void list_strict(const LaneRun& run, std::vector<Lanes::Candidate>& out,
                   bool to_first_ready) const;
  void list_relaxed(const LaneRun& run, std::vector<Lanes::Candidate>& out,
                    bool to_first_ready) const;
  Lanes::Candidate candidate(const PassMember& member, std::size_t block,
                             std::uint32_t distance) const;
  std::uint32_t sequence_here(const LaneRun& run) const;

  Lanes::Need make(const PassMember& member, std::size_t block) const;
  Lanes::Need make_missing(const PassMember& member) const;
  Lanes::Need make_absent(const PassMember& member) const;
  Lanes::Need make_dropped(const PassMember& member) const;
  std::optional<Lane> pass_to_join(const LaneRun& run, bool any) const;
  std::optional<Lane> pass_to_open(const LaneMember& member, const LaneRun& run) const;
  std::int64_t value_to_others(const LaneDemand::Lane& demand, bool is_new,
                               const LaneMember& member) const;
  std::uint32_t pass_number(const LaneRun& run, std::uint32_t lane) const;
  bool may_begin_in(std::uint32_t generation, const LaneRun& previous) const;

  const Lanes::Options& options_;
  const Generations& generations_;
  const LanePasses& passes_;
  const LaneDemand& demand_;
  const StrictEpochs& strict_;
};

}  // namespace batchflow::order
