// Samples that must be read for a block or a batch, in groups that come in one read each.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/random.h"
#include "core/engine/reads.h"
#include "core/engine/staging.h"

namespace batchflow::engine {

// The first index of each sample in a block: a hash table that is used again for each block.
class FirstIndices {
 public:
  // Begins a block of `samples` samples.
  void clear(std::size_t samples) {
    buckets_.assign(std::bit_ceil(2 * samples + 1), {SampleId(0), kFree});
  }
  // The index with which this was first called for the sample. REQUIRES: called no more often than
  // there are samples
  std::uint32_t first_index(SampleId sample, std::uint32_t index) {
    const std::size_t mask = buckets_.size() - 1;
    std::size_t at = mix(sample.value) & mask;
    while (buckets_[at].index != kFree && buckets_[at].sample != sample) at = (at + 1) & mask;
    if (buckets_[at].index == kFree) buckets_[at] = {sample, index};
    return buckets_[at].index;
  }

 private:
  static constexpr std::uint32_t kFree = UINT32_MAX;
  struct Bucket {
    SampleId sample;
    std::uint32_t index;
  };
  std::vector<Bucket> buckets_;
};

// Where samples come from, and where they are to stay.
struct ReadSource {
  ShareId share = ShareId::none();  // none: a store
  ShareId keep = ShareId::none();   // share
  Form form = Form::encoded;
  ReadIndex after = ReadIndex::none();  // brings the samples to `share`
  // Of bundles that their home reads for the same part of a block: the index in Items::brought_.
  std::uint32_t brought = UINT32_MAX;
  friend bool operator==(const ReadSource&, const ReadSource&) = default;
};

// In the order in which they were first asked for. Groups that are given up keep their memory.
class ReadGroups {
 public:
  struct Group {
    ReadSource source;
    std::vector<SampleId> samples;
    std::vector<std::uint32_t> ingredients;  // that wait for it
  };
  void add(const ReadSource& source, SampleId sample, std::uint32_t ingredient) {
    Group& group = group_for(source);
    group.samples.push_back(sample);
    group.ingredients.push_back(ingredient);
  }
  std::span<const Group> all() const { return {groups_.data(), used_}; }
  void clear() { used_ = 0; }

 private:
  Group& group_for(const ReadSource& source) {
    for (std::size_t i = 0; i < used_; ++i) {
      if (groups_[i].source == source) return groups_[i];
    }
    if (used_ == groups_.size()) groups_.emplace_back();
    Group& group = groups_[used_++];
    group.source = source;
    group.samples.clear();
    group.ingredients.clear();
    return group;
  }

  std::vector<Group> groups_;
  std::size_t used_ = 0;
};

// The read of a group: from where its samples are to the node, for a share or for staging.
inline Reads::Spec read_spec(const EngineState& s, const ReadSource& source, DatasetId dataset,
                             NodeIndex node) {
  Reads::Spec spec;
  spec.dataset = dataset;
  spec.from = source.share.is_none() ? Place{NodeId::none(), Tier::store, 0}
                                     : s.memory[source.share].spec.place;
  spec.source = source.share;
  spec.keep = source.keep;
  spec.form = source.form;
  spec.after = source.after;
  if (source.form == Form::decoded) {
    spec.each = staged_bytes(s, s.memory[source.share].spec.slot_bytes);
  }
  spec.to = dram_of(s.nodes[node].id);
  spec.node = node;
  return spec;
}

}  // namespace batchflow::engine
