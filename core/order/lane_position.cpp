#include "core/order/lane_position.h"

#include <algorithm>

#include "core/base/check.h"

namespace batchflow::order {

void LanePosition::record(const BlockName& name, const LaneSizes& its_sizes) {
  if (name.generation != generation || its_sizes != sizes || epoch_done())
    begin_epoch(name.generation, its_sizes);
  OpenLane& lane = open_lane(name);
  BF_CHECK_MSG(!lane.had.test(name.block), "a block is had once in an epoch");
  lane.had.set(name.block);
  if (!lane.had.all()) return;
  had.set(name.lane);
  open.erase(open.begin() + (&lane - open.data()));
}

void LanePosition::begin_epoch(std::uint64_t number, const LaneSizes& its_sizes) {
  BF_CHECK_MSG(sizes.samples == 0 || at_epoch_start() || epoch_done(),
               "an epoch stays in its generation");
  if (number != generation || its_sizes != sizes) passes.assign(its_sizes.lanes(), 0);
  generation = number;
  sizes = its_sizes;
  had = Bitmap(its_sizes.lanes());
}

const LanePosition::OpenLane* LanePosition::find_open(std::uint32_t lane) const {
  const auto found =
      std::find_if(open.begin(), open.end(), [&](const OpenLane& one) { return one.lane == lane; });
  return found == open.end() ? nullptr : &*found;
}

LanePosition::OpenLane& LanePosition::open_lane(const BlockName& name) {
  if (OpenLane* const found = find_open(name.lane)) {
    BF_CHECK_MSG(found->pass == name.pass, "a lane is had in one pass an epoch");
    return *found;
  }
  BF_CHECK(!had.test(name.lane) && name.pass >= passes[name.lane]);
  passes[name.lane] = static_cast<std::uint8_t>(name.pass + 1);
  open.push_back({name.lane, name.pass, Bitmap(sizes.blocks_of(name.lane))});
  return open.back();
}

bool LanePosition::consistent(std::uint32_t passes_most) const {
  if (sizes.samples == 0 || sizes.block_samples == 0 || sizes.lane_blocks == 0) return false;
  if (generation > kGenerationMost) return false;
  const std::uint32_t lanes = sizes.lanes();
  if (passes.size() != lanes || had.size() != lanes) return false;
  Bitmap begun = had;
  for (const OpenLane& lane : open) {
    if (lane.lane >= lanes || begun.test(lane.lane)) return false;
    if (lane.had.size() != sizes.blocks_of(lane.lane) || lane.had.all()) return false;
    if (passes[lane.lane] != lane.pass + 1) return false;
    begun.set(lane.lane);
  }
  if (at_epoch_start() || epoch_done()) return true;
  for (std::uint32_t lane = 0; lane < lanes; ++lane)
    if (begun.test(lane) ? passes[lane] == 0 : passes[lane] >= passes_most) return false;
  return true;
}

}  // namespace batchflow::order
