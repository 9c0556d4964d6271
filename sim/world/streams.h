// Blocks that stand for streams of many, in replays: what such a block is made from comes while it
// is prepared, as fast as the slowest of storage, network and cores lets it.
//
// So a read is told to be done at once, and what it moves belongs to the preparation, which is over
// when all of that has come and the cores have had their work. All reads for a block are one: they
// go on together, and end together.
#pragma once

#include <unordered_map>
#include <vector>

#include "sim/world/platform.h"
#include "sim/world/watch.h"
#include "sim/world/workload.h"

namespace batchflow::sim {

class Streams {
 public:
  explicit Streams(Platform& platform) : platform_(platform) {}

  // `amount` of what the block is made from, and what of it is written to a drive.
  void add(const Read& order, Instant now, const Platform::Amount& amount);
  // All that was added for the block, as parts of the errand that prepares it.
  void start(const Prepare& order, ErrandId errand, Random chance, std::uint32_t readers);
  // What such an errand, which is just over, waited for last.
  Cause cause_of(const Errands& errands, std::size_t node) const;

 private:
  struct Source {
    std::size_t node;
    Platform::Amount amount;
  };
  struct Stream {
    Instant since{};
    Platform::Amount store;
    Bytes peers = 0;
    std::vector<std::size_t> from;  // nodes
    std::vector<Source> drives;
    std::vector<Source> written;
  };
  static void add(std::vector<Source>& sources, std::size_t node, const Platform::Amount& amount);

  Platform& platform_;
  std::unordered_map<std::uint64_t, Stream> coming_;  // by block; looked up, never walked
};

}  // namespace batchflow::sim
