// From lineages to sample ids and back.
//
// Commands name blocks by lineage. What prepares a block, or needs to know which cached samples it
// uses, expands the lineage here. The answer depends on the lineage and the number of samples
// alone. The inverse tells where a sample stands, which policies that know the future need.
//
// Block b of pass r of lane v holds indices [bB, bB + B) of the lane's pass. Index i of pass 0 is
// index s_v + i of the generation, with s_v = vLB. A later pass reads the lane's indices through a
// permutation of its own. So pass 0 of all lanes, one after the other, is the strict epoch of that
// number.
//
// Where runs of adjacent samples are shuffled, a generation is a permutation of runs, and pass 0
// reads its lane through a permutation, too (order rules, section 3, "Runs").
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/order/block_name.h"
#include "core/order/keys.h"
#include "core/order/lane_sizes.h"
#include "core/order/permutation.h"

namespace batchflow::order {

// The permutations used last: a lane's table is worth keeping from block to block. Not thread-safe;
// give each thread its own.
class PermutationCache {
 public:
  // Sixteen tables of the largest size.
  static constexpr std::size_t kBytesMost = 16 * 4 * Permutation::kTableMost;

  // Keeps at most this many bytes, but always the last two permutations.
  explicit PermutationCache(std::size_t bytes_most = kBytesMost) : bytes_most_(bytes_most) {}
  // Valid until the cache is destroyed or two others have been asked for.
  const Permutation& get(std::uint64_t key, std::uint64_t n);

  std::size_t bytes() const { return bytes_; }
  // Entries of all tables that were ever made: what making them cost.
  std::uint64_t entries_made() const { return entries_made_; }

 private:
  struct Entry {
    std::pair<std::uint64_t, std::uint64_t> name;  // key and n
    Permutation permutation;
  };
  static std::size_t bytes_of(const Entry& entry) {
    return sizeof(Entry) + entry.permutation.table_bytes();
  }

  std::size_t bytes_most_;
  std::size_t bytes_ = 0;
  std::uint64_t entries_made_ = 0;
  std::list<Entry> entries_;  // used last first
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::list<Entry>::iterator> by_name_;
};

// Where a sample stands in one pass of its lane.
struct Standing {
  std::uint32_t lane = 0;
  std::uint32_t block = 0;  // of the pass
  std::uint32_t index = 0;  // in the block
  friend constexpr bool operator==(const Standing&, const Standing&) = default;
};

// A generation of a stream: what its blocks have in common. A strict or sequential epoch is one.
struct GenerationOrder {
  Order order = Order::strict;
  KeyRoot root;
  std::uint64_t generation = 0;  // of a strict or sequential job: the epoch
  LaneSizes sizes;
  std::uint8_t run_shift = 0;  // not 0: runs of 2^run_shift samples are shuffled

  static GenerationOrder from_lineage(const Lineage& lineage, std::uint64_t samples);
  Lineage lineage(const BlockName& name, DatasetId dataset, PipelineId pipeline,
                  Digest pipeline_hash) const;
};

// No run is longer.
inline constexpr std::uint8_t kRunShiftMost = 31;

// Runs of 2^shift adjacent samples, the last of which may be shorter, one after the other in the
// order of a permutation.
class RunOrder {
 public:
  // REQUIRES: `runs` permutes the runs of `samples` samples; it outlives this
  RunOrder(const Permutation& runs, std::uint64_t samples, std::uint8_t shift);

  // The sample at an index, and the index of a sample. REQUIRES: below `samples`
  std::uint64_t operator()(std::uint64_t index) const;
  std::uint64_t index_of(std::uint64_t sample) const;

 private:
  const Permutation& runs_;
  std::uint8_t shift_;
  std::uint64_t last_run_;
  std::uint64_t last_at_;  // where the last run stands among the runs
  std::uint64_t missing_;  // how many samples the last run has fewer than the others
};

// False when a lineage names a block that a dataset of `samples` samples does not have, or when its
// order has no lineages of this kind (weighted, listed).
bool valid_lineage(const Lineage& lineage, std::uint64_t samples);

class Expander {
 public:
  explicit Expander(std::size_t bytes_most = PermutationCache::kBytesMost) : cache_(bytes_most) {}

  // All ids of the block, in its order, into `out`. REQUIRES: valid_lineage(lineage, samples)
  void expand(const Lineage& lineage, std::uint64_t samples, std::vector<SampleId>& out);
  // Only the samples at indices [from, to) of the block.
  void expand(const Lineage& lineage, std::uint64_t samples, std::uint32_t from, std::uint32_t to,
              std::vector<SampleId>& out);
  SampleId at(const Lineage& lineage, std::uint64_t samples, std::uint32_t index);

  // The sample's index in the generation; for a strict or sequential order that is the whole epoch.
  std::uint64_t index_in_generation(const GenerationOrder& order, SampleId sample);
  // The sample's index in pass `pass` of its lane. The lane is the same in all passes of a
  // generation.
  // REQUIRES: pass 0, unless relaxed
  Standing find(const GenerationOrder& order, std::uint32_t pass, SampleId sample);

  const PermutationCache& permutations() const { return cache_; }

 private:
  // The sample at each of these indices of the generation, in place.
  void name_samples(const GenerationOrder& order, std::span<std::uint64_t> indices);
  const Permutation& generation(const GenerationOrder& order);
  const Permutation& recut(const GenerationOrder& order, std::uint32_t lane, std::uint32_t pass);

  PermutationCache cache_;
  std::vector<std::uint64_t> scratch_;
};

}  // namespace batchflow::order
