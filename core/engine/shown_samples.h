// The samples that reads show to others: each on a node, in a form, under way or still staged.
//
// Makings and batches that want a sample find it here, and hold it. What they hold is counted apart
// from what holds all of a read.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/flat_map.h"
#include "core/base/pool.h"
#include "core/engine/blocks.h"
#include "core/engine/indices.h"

namespace batchflow::engine {

struct ShownSample {
  ReadIndex read = ReadIndex::none();
  std::uint32_t index = 0;    // among its samples
  std::uint32_t holders = 0;  // beside those that hold all of the read
  void reset() { *this = ShownSample(); }
};

class ShownSamples {
 public:
  ShownSample& operator[](ShownIndex shown) { return samples_[shown]; }
  const ShownSample& operator[](ShownIndex shown) const { return samples_[shown]; }
  // None: no read shows the sample.
  ShownIndex find(NodeIndex node, DatasetId dataset, SampleId sample, Form form) const;
  // False if find() would answer none for all samples of the dataset on this node.
  bool any(NodeIndex node, DatasetId dataset) const { return reads_at_.has(key(node, dataset)); }

  // Shows all samples of the read.
  void show(OpenRead& read, ReadIndex index);
  // From now on nothing finds the samples of the read.
  void hide(OpenRead& read);
  // Forgets some samples of the read, which nothing holds.
  void release(OpenRead& read, std::span<const ShownIndex> shown);
  // Forgets all that are left. REQUIRES: they are hidden, or the read showed none
  void release(const OpenRead& read);

 private:
  // The reads of a dataset to a node.
  struct ReadsAt {
    std::uint32_t count = 0;
    void reset() { count = 0; }
  };
  static std::uint64_t key(NodeIndex node, DatasetId dataset) {
    return std::uint64_t{node.value} << 32 | dataset.value;
  }
  static std::uint64_t sample_key(std::uint32_t reads, SampleId sample, Form form);

  Pool<ReadsAt> reads_;
  FlatMap reads_at_;  // indices in reads_, by node and dataset
  FlatMap found_;     // indices in samples_, by sample and index in reads_
  IndexedPool<ShownSample, ShownIndex> samples_;
};

}  // namespace batchflow::engine
