// Passes of lanes, and the members in them: the state of each block, which member has taken it, and
// the counts that follow from both.
//
// A pass exists while a member has it open or a block of it is here. Passes and the members in them
// have slots, which are reused. LaneMembers calls whatever changes them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/bitmap.h"
#include "core/base/check.h"
#include "core/base/pool.h"
#include "core/order/block_ref.h"

namespace batchflow::order {

// A member in a pass that it has open.
struct PassMember {
  MemberId member;
  std::uint32_t run = 0;      // 0: of its running epoch, 1: of the next
  std::uint32_t pass = 0;     // slot
  std::uint32_t untaken = 0;  // blocks of the pass it has not taken; of these:
  std::uint32_t here = 0;     // resident or in preparation
  std::uint32_t dropped = 0;  // made once and gone
  Bitmap taken;
  std::uint32_t first_word = 0;  // of `taken`: those before have all bits set
};

// One pass of a lane. `serial` tells one use of a slot from the next.
struct Pass {
  std::uint32_t generation = 0;  // slot
  std::uint32_t lane = 0;
  std::uint32_t number = 0;  // r
  std::uint64_t serial = 0;  // of all passes ever opened; 0: free
  std::uint32_t here = 0;
  std::uint32_t dropped = 0;
  std::vector<BlockState> states;
  std::vector<std::uint32_t> needed;  // a block: pass members that have not taken it
  std::vector<std::uint32_t> tags;    // the engine's own
  Bitmap absent_blocks, here_blocks, dropped_blocks;
  Bitmap late_blocks;                  // made again, or after a failure: not in their turn
  std::vector<std::uint32_t> members;  // slots, in the order they came

  std::uint32_t blocks() const { return static_cast<std::uint32_t>(states.size()); }
  // Whether relaxed members may join it, by rule 3.
  bool may_be_joined() const { return !members.empty() && 2 * dropped <= blocks(); }
};

class LanePasses {
 public:
  const Pass& operator[](std::uint32_t slot) const { return passes_[slot]; }
  const PassMember& member(std::uint32_t slot) const { return members_[slot]; }
  std::size_t used() const { return passes_.used(); }

  bool valid(BlockRef ref) const {
    return ref.pass < passes_.size() && passes_[ref.pass].serial == ref.serial && ref.serial != 0;
  }
  // REQUIRES: valid(ref)
  const Pass& at(BlockRef ref) const {
    BF_CHECK_MSG(valid(ref), "the block's pass is gone");
    return passes_[ref.pass];
  }
  std::uint32_t& tag(BlockRef ref) { return const_cast<Pass&>(at(ref)).tags[ref.block]; }
  // The first block that the member has not taken and that is not here.
  std::size_t first_missing(const PassMember& member) const;

  struct Lane {
    std::vector<std::uint32_t> open;  // its passes, oldest first
    std::uint32_t next_number = 0;    // one above the greatest ever opened
  };
  const std::vector<Lane>& lanes(std::uint32_t generation) const {
    return generations_[generation].lanes;
  }
  std::uint64_t opened(std::uint32_t generation) const { return generations_[generation].opened; }
  std::uint32_t find(std::uint32_t generation, std::uint32_t lane, std::uint32_t number) const;

  // A generation has taken the slot. None of its passes is open.
  void begin_generation(std::uint32_t slot, std::uint32_t lanes);
  // The lane's passes below this number are used up, whether this service has seen them or not.
  void use_up(std::uint32_t generation, std::uint32_t lane, std::uint32_t below);
  // Closed again by close_if_done(). REQUIRES: find() says that there is none
  std::uint32_t open(std::uint32_t generation, std::uint32_t lane, std::uint32_t number,
                     std::uint32_t blocks);
  // True if the pass has no members and no blocks here any more: it is gone.
  bool close_if_done(std::uint32_t slot);

  // The member has all of the pass before it but the blocks in `taken`. Answers its slot there.
  std::uint32_t join(MemberId member, std::uint32_t run, std::uint32_t pass, const Bitmap& taken);
  // The epoch that was the member's next one runs now.
  void run_epoch(std::uint32_t member) { members_[member].run = 0; }
  // True if that was the member's last block. REQUIRES: it has not taken the block
  bool take(std::uint32_t member, std::uint32_t block);
  void leave(std::uint32_t member);

  // Moves the block to the state. If the block comes to be here or dropped, or ceases to be so, it
  // calls changed(const PassMember&, int here, int dropped) for each member that has not taken it.
  template <class Changed>
  void move(BlockRef ref, BlockState state, Changed changed) {
    Pass& pass = passes_[ref.pass];
    const BlockState before = pass.states[ref.block];
    set_state(pass, ref.block, state);
    const int here = int{is_here(state)} - int{is_here(before)};
    const int dropped = int{state == BlockState::dropped} - int{before == BlockState::dropped};
    if (here == 0 && dropped == 0) return;
    for (const std::uint32_t slot : pass.members) {
      PassMember& member = members_[slot];
      if (member.taken.test(ref.block)) continue;
      member.here += static_cast<std::uint32_t>(here);
      member.dropped += static_cast<std::uint32_t>(dropped);
      changed(member, here, dropped);
    }
  }

  // Recounts what is counted here.
  void check() const;

 private:
  struct OfGeneration {
    std::vector<Lane> lanes;
    std::uint64_t opened = 0;  // i of rule 4's ties
  };

  static void set_state(Pass& pass, std::uint32_t block, BlockState state);
  void check_pass(std::uint32_t slot) const;

  SlotTable<Pass> passes_;
  SlotTable<PassMember> members_;
  std::vector<OfGeneration> generations_;  // by slot
  std::uint64_t serials_ = 0;
};

}  // namespace batchflow::order
