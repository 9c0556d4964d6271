// Where a relaxed job is in its epoch: which lanes and blocks it has had.
//
// The engine keeps one for each job, of what is committed. It records a block when the last sample
// of the block is committed. `Lanes::add_relaxed` starts a member from it. A block that is partly
// used is not recorded.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/bitmap.h"
#include "core/order/block_name.h"
#include "core/order/lane_sizes.h"

namespace batchflow::order {

struct LanePosition {
  // Generations go on from here without wrapping around, even if the number came from outside.
  static constexpr std::uint64_t kGenerationMost = std::uint64_t{1} << 62;

  struct OpenLane {
    std::uint32_t lane = 0;
    std::uint32_t pass = 0;
    Bitmap had;  // its blocks that the job has had
  };

  std::uint64_t generation = 0;
  LaneSizes sizes;                   // samples = 0: no epoch was ever begun
  std::vector<std::uint8_t> passes;  // a lane: last pass used in this generation + 1; 0: none yet
  Bitmap had;                        // lanes finished in this epoch
  std::vector<OpenLane> open;        // lanes begun and not finished, in the order begun

  // The job has had all of this block. A block of a later generation begins the next epoch, and so
  // does one of this generation after all its lanes were had.
  void record(const BlockName& name, const LaneSizes& its_sizes);
  // Nothing of the epoch has been had: the job may begin it in a generation of its choice.
  bool at_epoch_start() const { return open.empty() && had.none(); }
  bool epoch_done() const { return sizes.samples != 0 && had.all(); }
  // Whether its parts agree, and each lane still to be had has a pass left below `passes_most`. A
  // position from outside is checked before it is used.
  bool consistent(std::uint32_t passes_most) const;
  // The lane's entry in `open`, or null.
  const OpenLane* find_open(std::uint32_t lane) const;
  OpenLane* find_open(std::uint32_t lane) {
    return const_cast<OpenLane*>(std::as_const(*this).find_open(lane));
  }

 private:
  void begin_epoch(std::uint64_t number, const LaneSizes& its_sizes);
  OpenLane& open_lane(const BlockName& name);
};

}  // namespace batchflow::order
