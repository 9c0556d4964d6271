// The parts of lanes: passes with the state of their blocks, generations with the demand for their
// lanes, and members as they are in passes. Used by lanes.h alone.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/bitmap.h"
#include "core/base/types.h"
#include "core/order/lane_sizes.h"

namespace batchflow::order {

using MemberId = Id<struct MemberTag, std::uint32_t>;

// The state of a block in one pass. `remaking`: it is in preparation, and was made in this pass
// before.
enum class BlockState : std::uint8_t { absent, making, remaking, resident, dropped };
inline constexpr bool is_here(BlockState state) {
  return state == BlockState::making || state == BlockState::remaking ||
         state == BlockState::resident;
}

// A member in a pass that it has open. Slots are reused.
struct PassMember {
  MemberId member;
  std::uint32_t run = 0;      // 0: of its running epoch, 1: of the next
  std::uint32_t pass = 0;     // slot
  std::uint32_t untaken = 0;  // blocks of the pass it has not taken; of these:
  std::uint32_t here = 0;     // resident or in preparation
  std::uint32_t dropped = 0;  // made once and gone
  std::uint32_t passed = 0;  // blocks of lanes it has finished since, next before this one in order
  Bitmap taken;
  std::uint32_t first_word = 0;  // of `taken`: those before have all bits set
};

// One pass of a lane. It exists while a member has it open or a block of it is here. Slots are
// reused; `serial` tells one use of a slot from the next.
struct Pass {
  std::uint32_t generation = 0;  // slot
  std::uint32_t lane = 0;
  std::uint32_t number = 0;  // r
  std::uint64_t serial = 0;  // of all passes ever opened in this Lanes; 0: free
  std::uint32_t here = 0;
  std::uint32_t dropped = 0;
  std::uint32_t wanted = 0;  // by relaxed members: they need its lane and have had no later pass
  std::vector<BlockState> states;
  std::vector<std::uint32_t> needed;  // a block: pass members that have not taken it
  std::vector<std::uint32_t> tags;    // the engine's own
  Bitmap absent_blocks, here_blocks, dropped_blocks;
  Bitmap late_blocks;                  // made again, or after a failure: not in their turn
  std::vector<std::uint32_t> members;  // slots

  std::uint32_t blocks() const { return static_cast<std::uint32_t>(states.size()); }
  // Whether relaxed members may join it, by rule 3.
  bool may_be_joined() const { return !members.empty() && 2 * dropped <= blocks(); }
  void open(std::uint32_t block_count, std::uint64_t its_serial);
  void move_to(std::uint32_t block, BlockState state);
};

// How many members have a lane before them, and how many of those are hungry.
struct Demand {
  std::uint32_t members = 0;
  std::uint32_t hungry = 0;
  friend bool operator==(const Demand&, const Demand&) = default;
};

// A generation exists while a member is in it or a pass of it exists. Slots are reused.
struct Generation {
  std::uint64_t number = 0;  // g
  LaneSizes sizes;
  bool used = false;
  std::uint32_t runs = 0;                  // epochs of members, also those just ended
  std::uint32_t runs_with_lanes_left = 0;  // of relaxed members
  std::uint32_t strict_runs_with_lanes_left = 0;
  std::uint32_t passes_alive = 0;
  std::uint64_t passes_opened = 0;               // i of the tie rule
  std::vector<std::uint32_t> next_pass;          // a lane: one above the greatest ever opened
  std::vector<Demand> demand;                    // a lane: relaxed members
  std::vector<Demand> strict_demand;             // a lane: strict members, their next lane only
  std::vector<std::uint32_t> strict_ahead;       // a lane: strict members that have yet to open it
  std::vector<std::vector<std::uint32_t>> open;  // a lane: its passes, oldest first
  std::vector<bool> changed;                     // a lane: it stands in Lanes::changed_

  void open_up(std::uint64_t its_number, const LaneSizes& its_sizes);
};

}  // namespace batchflow::order
