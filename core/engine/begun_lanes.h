// The lanes of which a job's epoch has had some samples and not all, as its indices are cut.
//
// A position holds a limited number of them (order rules, section 7). Where all nodes cut from one
// sequence, these are nearly always the lanes with blocks to take. Where each node has an open
// block of its own, a lane whose last block is open is begun, too: there may be as many as there
// are nodes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/order/position.h"

namespace batchflow::engine {

class BegunLanes {
 public:
  BegunLanes() = default;
  explicit BegunLanes(const order::Position& at) {
    const order::LaneSizes& sizes = at.lanes().sizes;
    for (const order::LanePosition::OpenLane& open : at.lanes().open) {
      for (std::uint32_t block = 0; block < sizes.blocks_of(open.lane); ++block) {
        cut(open.lane, sizes, at.samples_had(open.lane, block));
      }
    }
  }

  // When full, no other lane may be begun before one of these is finished.
  bool full() const { return lanes_.size() >= order::Position::kOpenLanesMost; }
  bool has(std::uint32_t lane) const {
    return std::any_of(lanes_.begin(), lanes_.end(),
                       [&](const Begun& one) { return one.lane == lane; });
  }
  // The next samples of the epoch are of this lane.
  void cut(std::uint32_t lane, const order::LaneSizes& sizes, std::uint32_t samples) {
    if (samples == 0) return;
    auto found = std::find_if(lanes_.begin(), lanes_.end(),
                              [&](const Begun& one) { return one.lane == lane; });
    if (found == lanes_.end()) {
      found = lanes_.insert(found, {lane, sizes.samples_of(lane)});
    }
    found->left -= samples;
    if (found->left == 0) lanes_.erase(found);
  }

 private:
  struct Begun {
    std::uint32_t lane;
    std::uint64_t left;  // samples
  };
  std::vector<Begun> lanes_;
};

}  // namespace batchflow::engine
