// How much of a node's memory reads land in, and how much of it a making may have at a time.
//
// Staging memory is a part of the node's place. It holds at least the largest sample of every
// dataset that streams on the node, so that each block can be made, sample by sample if need be. A
// making takes what the next part of its block needs all at once, in the order in which makings
// came, and holds none while it waits for its turn. So no two makings wait for each other's memory.
// What a making holds is free again when a worker has prepared the part. Until then it waits for
// reads, for a worker, and for makings that began their part before it began its own, and each of
// these comes.
#pragma once

#include <algorithm>

#include "core/base/saturating.h"
#include "core/engine/books.h"

namespace batchflow::engine {

// The staging memory of a sample of this size: where whole sectors are read, all that it may touch.
inline Bytes staged_bytes(const EngineState& s, Bytes bytes) {
  const Bytes sector = s.config.staging_sector_bytes;
  if (sector == 1) return bytes;
  const Bytes touched = saturating_sum(bytes, 2 * sector - 1);
  return touched / sector * sector;
}
inline Bytes staged_bytes(const EngineState& s, const Dataset& dataset, SampleId sample) {
  return staged_bytes(s, dataset.catalogue->bytes(sample));
}
inline Bytes largest_staged(const EngineState& s, const Dataset& dataset) {
  return staged_bytes(s, dataset.catalogue->largest_bytes());
}
// The same of the bundle that the sample is in.
inline Bytes staged_bundle_bytes(const EngineState& s, const Dataset& dataset, SampleId sample) {
  const Catalogue& catalogue = *dataset.catalogue;
  return staged_bytes(s, catalogue.bundle_bytes(sample.value >> catalogue.bundle_shift()));
}
inline Bytes largest_staged(const EngineState& s, const Stream& stream) {
  return largest_staged(s, s.datasets[stream.dataset]);
}

// How many blocks of a node may be read or in preparation at a time.
inline std::uint32_t blocks_at_once(const EngineState& s, const Node& node) {
  const std::uint32_t workers = std::max(1u, node.workers);
  return s.config.workers_held_during_reads ? workers
                                            : workers * s.config.blocks_in_flight_per_worker;
}

// Enough for a block, even if its samples happen to be larger than the mean.
inline Bytes block_staged(const EngineState& s, const Stream& stream) {
  const Dataset& dataset = s.datasets[stream.dataset];
  const Bytes largest = largest_staged(s, dataset);
  const Bytes mean = staged_bytes(s, dataset.catalogue->mean_bytes());
  const Bytes most = saturating_product(largest, stream.block_samples);
  const Bytes usual = saturating_product(mean, stream.block_samples);
  return std::min(most, saturating_sum(saturating_sum(usual, usual / 4), largest));
}

// What a place is promised if its largest sample has this size. Memory that is set apart for reads
// serves nothing else. A sample that does not fit into it has memory beside it.
inline Bytes staging_least(const EngineState& s, Bytes largest) {
  const Bytes apart = s.config.staging_bytes;
  return largest > apart ? saturating_sum(apart, largest) : apart;
}

// What a place that is used by this stream alone needs.
inline Bytes staging_of(const EngineState& s, const Stream& stream) {
  return s.config.count_staging ? staging_least(s, largest_staged(s, stream)) : 0;
}

// How much more a place that streams already use needs for this stream.
inline Bytes more_staging(const EngineState& s, const Stream& stream, Place place) {
  if (!s.config.count_staging) return 0;
  const Bytes needed = staging_of(s, stream);
  const Bytes least = s.memory.staging(place).least;
  return needed > least ? needed - least : 0;
}

inline void raise_staging(EngineState& s, const Stream& stream, Place place) {
  if (!s.config.count_staging) return;
  s.memory.raise_staging(place, staging_least(s, largest_staged(s, stream)));
}

// Covers all streams that may have blocks made on the node.
inline void plan_staging(EngineState& s, const Node& node) {
  const Place place = dram_of(node.id);
  if (!s.config.count_staging || !s.memory.has(place)) return;
  Bytes largest = 0;
  Bytes block = 0;
  for (const StreamId index : node.streams) {
    Stream& stream = s.streams[index];
    const StreamNode& part = part_on(stream, node.id);
    if (part.jobs == 0 && part.reserve == 0 && !part.standby) continue;
    largest = std::max(largest, largest_staged(s, stream));
    block = std::max(block, block_staged(s, stream));
  }
  constexpr Bytes kPart = 8;  // of a place, at most, where no sample is larger
  const Bytes wish = s.config.staging_bytes > 0
                         ? 0
                         : std::min(saturating_product(block, blocks_at_once(s, node)),
                                    s.memory.capacity(place) / kPart);
  const Bytes least = staging_least(s, largest);
  s.memory.plan_staging(place, least, std::max(least, wish));
}

// How much staging memory one part may take.
inline Bytes part_bytes(const EngineState& s, const Node& node, const Stream& stream) {
  const StagingPart& staging = s.memory.staging(dram_of(node.id));
  return std::max(staging.room() / blocks_at_once(s, node), largest_staged(s, stream));
}

// Whether a sample of the stream can be staged on the node at all.
inline bool can_stage(const EngineState& s, const Node& node, const Stream& stream) {
  return !s.config.count_staging ||
         s.memory.staging(dram_of(node.id)).room() >= largest_staged(s, stream);
}

inline void stage(EngineState& s, NodeIndex node, Bytes bytes) {
  if (bytes > 0 && s.config.count_staging) s.memory.stage(dram_of(s.nodes[node].id), bytes);
}
inline void unstage(EngineState& s, NodeIndex node, Bytes bytes) {
  if (bytes == 0 || !s.config.count_staging) return;
  s.memory.unstage(dram_of(s.nodes[node].id), bytes);
  s.staging_changed(node);
}

}  // namespace batchflow::engine
