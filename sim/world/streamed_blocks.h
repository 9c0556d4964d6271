// Blocks that stand for streams of many blocks, in replays. The samples of such a block come while
// it is prepared, as fast as the slowest of storage, network and cores lets them.
//
// So a read counts as done at once, and its bytes belong to the preparation. The preparation is
// over when all bytes have come and the cores have done their work. All reads for a block are one:
// they go on together, and end together.
#pragma once

#include <unordered_map>
#include <vector>

#include "sim/world/platform.h"
#include "sim/world/watch.h"
#include "sim/world/workload.h"

namespace batchflow::world {

class StreamedBlocks {
 public:
  explicit StreamedBlocks(Platform& platform) : platform_(platform) {}

  // `amount` is read for the block, and written to a drive where it is kept there.
  void add(const engine::Read& command, Instant now, const Platform::Amount& amount);
  // Adds all that `add` collected for the block, as parts of the task that prepares it.
  void start(const engine::Prepare& command, TaskId task, Random chance, std::uint32_t readers);
  // What such a task, which is just over, waited for last.
  Cause cause_of(const Tasks& tasks, std::size_t node) const;

 private:
  struct Source {
    std::size_t node;
    Platform::Amount amount;
    std::size_t gpu = 0;
  };
  struct BlockInput {
    Instant since{};
    Platform::Amount store;
    Bytes peers = 0;
    std::vector<std::size_t> from;  // nodes
    std::vector<Source> drives;
    std::vector<Source> gpus;
    std::vector<Source> written;
  };
  static void add(std::vector<Source>& sources, std::size_t node, const Platform::Amount& amount,
                  std::size_t gpu = 0);

  Platform& platform_;
  std::unordered_map<std::uint64_t, BlockInput> coming_;  // by block; looked up, never walked
};

}  // namespace batchflow::world
