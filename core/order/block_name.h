// What blocks are: their names, what each is rebuilt from, and the pieces of them that batches
// hold.
#pragma once

#include <compare>
#include <cstdint>

#include "core/base/types.h"

namespace batchflow::order {

// A block by name: pass `pass` of lane `lane` of generation `generation`, block `block` of that
// pass. A strict epoch e is generation e, pass 0 of each lane. In a weighted order the generation
// names weights, epoch and kind of draws, and pass is 0.
struct BlockName {
  std::uint64_t generation = 0;
  std::uint32_t lane = 0;
  std::uint32_t pass = 0;
  std::uint32_t block = 0;
  friend constexpr auto operator<=>(const BlockName&, const BlockName&) = default;
};

// What a block is rebuilt from, to the same bytes, on any node at any time.
struct Lineage {
  DatasetId dataset;
  Digest dataset_version = 0;  // D of the order rules
  PipelineId pipeline;
  Digest pipeline_hash = 0;
  Order order = Order::relaxed;
  std::uint64_t seed = 0;           // S: the seed of the seed group
  std::uint32_t block_samples = 0;  // B
  std::uint32_t lane_blocks = 0;    // L
  BlockName name;
  std::uint32_t samples = 0;   // in this block; less than B in the last one
  std::uint8_t run_shift = 0;  // not 0: runs of 2^run_shift samples were shuffled
};

// A piece of a block in a batch: its samples [from, to). Fillers repeat the tail of an epoch, so
// that all ranks get equal counts; they are not part of the epoch. Rehearsed samples are not,
// either: they come from the job's buffer, in a sequence of its own. Its generation names the
// buffer and the epoch.
struct Slice {
  BlockName name;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  bool filler = false;
  bool rehearsed = false;
};

// A corrupt sample in a block and the good one that replaces it (order rules, section 6).
struct Replacement {
  std::uint32_t index;  // in the block
  SampleId corrupt;
  SampleId used;
};

}  // namespace batchflow::order
