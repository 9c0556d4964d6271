#include "core/order/generation.h"

#include "core/base/check.h"

namespace batchflow::order {

void Pass::open(std::uint32_t block_count, std::uint64_t its_serial) {
  BF_CHECK(members.empty() && here == 0);
  serial = its_serial;
  dropped = 0;
  states.assign(block_count, BlockState::absent);
  needed.assign(block_count, 0);
  tags.assign(block_count, 0);
  absent_blocks = Bitmap(block_count, true);
  here_blocks = Bitmap(block_count);
  dropped_blocks = Bitmap(block_count);
  late_blocks = Bitmap(block_count);
}

void Pass::move_to(std::uint32_t block, BlockState state) {
  const auto count = [&](BlockState which, bool in) {
    Bitmap& set = is_here(which)                 ? here_blocks
                  : which == BlockState::dropped ? dropped_blocks
                                                 : absent_blocks;
    in ? set.set(block) : set.reset(block);
    if (is_here(which)) in ? ++here : --here;
    if (which == BlockState::dropped) in ? ++dropped : --dropped;
  };
  if (!is_here(state)) late_blocks.set(block);
  count(states[block], false);
  count(state, true);
  states[block] = state;
}

void Generation::open_up(std::uint64_t its_number, const LaneSizes& its_sizes) {
  BF_CHECK(!used && runs == 0 && passes_alive == 0);
  number = its_number;
  sizes = its_sizes;
  used = true;
  passes_opened = 0;
  next_pass.assign(sizes.lanes(), 0);
  demand.assign(sizes.lanes(), {});
  strict_demand.assign(sizes.lanes(), {});
  strict_ahead.assign(sizes.lanes(), 0);
  open.assign(sizes.lanes(), {});
  changed.assign(sizes.lanes(), false);
}

}  // namespace batchflow::order
