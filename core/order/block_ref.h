// How lanes name their members and the blocks of open passes, and the states of such a block.
#pragma once

#include <cstdint>

#include "core/base/types.h"

namespace batchflow::order {

using MemberId = Id<struct MemberTag, std::uint32_t>;

// A block of an open pass, for O(1) access. Valid while the block is here (in preparation or
// resident) or a member has its pass open.
struct BlockRef {
  std::uint32_t pass = UINT32_MAX;
  std::uint32_t block = 0;
  std::uint64_t serial = 0;
  bool is_none() const { return pass == UINT32_MAX; }
  friend constexpr bool operator==(const BlockRef&, const BlockRef&) = default;
};

// The state of a block in one pass. `remaking`: it is in preparation, and was made in this pass
// before.
enum class BlockState : std::uint8_t { absent, making, remaking, resident, dropped };
inline constexpr bool is_here(BlockState state) {
  return state == BlockState::making || state == BlockState::remaking ||
         state == BlockState::resident;
}

}  // namespace batchflow::order
