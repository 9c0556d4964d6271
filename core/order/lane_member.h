// A member of a stream's lanes, and its epochs. LaneMembers changes them, and others read them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/base/bitmap.h"
#include "core/base/pool.h"

namespace batchflow::order {

// One epoch of a member. Entered: it holds its generation. Active: not all of it is taken.
struct LaneRun {
  // A pass that the member has joined and not yet taken all of.
  struct Open {
    std::uint32_t member;  // slot of the pass member
    std::uint32_t passed;  // blocks of lanes finished since the open lane before it in order
  };

  bool entered = false;
  bool active = false;
  std::uint32_t generation = 0;      // slot
  std::uint32_t epochs = 0;          // of this member in this generation, this one included
  std::vector<std::uint8_t> passes;  // relaxed, a lane: last pass used + 1
  Bitmap needs;                      // lanes neither had nor open; strict: the next lane alone
  std::uint32_t lanes_left = 0;      // lanes neither had nor open
  std::uint64_t untaken = 0;         // blocks
  std::uint32_t here = 0;            // of those
  std::vector<Open> open;            // in the order opened
  std::uint32_t passed = 0;          // blocks of lanes finished after the last of those
  std::uint32_t next_lane = 0;       // strict: not open yet
  std::uint64_t next_block = 0;      // strict: in sequence, not taken yet
};

// A strict member comes to the generations with numbers between these two, as far as is known.
struct Coming {
  std::uint64_t after = 0;
  std::uint64_t before = 0;  // 0: to none
};

struct LaneMember {
  bool used = false;
  bool strict = false;
  bool hungry = false;
  std::uint32_t tag = 0;
  std::uint32_t look_ahead = 0;
  std::uint32_t left = 0;  // untaken and not dropped, in its open lanes
  std::uint64_t end = 0;   // strict: its epochs, as far as they are known to follow, are below
  Coming coming;
  std::array<LaneRun, 2> runs;  // the running epoch (or the one just ended) and the next

  const LaneRun& newest_run() const { return runs[runs[1].active ? 1 : 0]; }
};

using LaneMemberTable = SlotTable<LaneMember>;

}  // namespace batchflow::order
