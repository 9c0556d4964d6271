// Shows the policies of the sample caches each request for a block, and asks them what to let in.
// For policies that go by it, it finds when a sample is wanted next, once for each sample.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/engine/future.h"
#include "core/engine/item_caches.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class ItemAdmission {
 public:
  // What all samples of a block have in common.
  struct Around {
    const Dataset* dataset = nullptr;
    Bytes bytes = 0;            // of each sample, as stored; 0: as the catalogue says
    std::size_t homes_of = 1;   // the nodes to which the dataset's samples are dealt
    bool runs = false;          // the block's runs are bundles
    bool foretold = false;      // when the block's node comes to a sample can be known
    bool foreseen = false;      // and its stream's order tells it
    JobId job = JobId::none();  // that the block is made for
  };

  explicit ItemAdmission(EngineState& state) : s_(state) {}

  // What follows is about this block. `around` stays as long as that; `lane`: as Future has it.
  void look_at(const Around& around, const std::optional<Future::Lane>& lane);
  // What follows is about another sample.
  void next_sample() { next_uses_ = {}; }

  Bytes stored_bytes(SampleId sample) const {
    return around_->bytes > 0 ? around_->bytes : around_->dataset->catalogue->bytes(sample);
  }
  // A request for the item, as its share's policy is shown it.
  Access access_to(const SharePart& part, ItemId item, SampleId sample, Slots slots);
  // The item is resident.
  void hit(const SharePart& part, const Access& access) { part.share->access(access, gone_); }
  // Counts what other policies, and one that knew the future, would have made of the request.
  void follow(const SharePart& part, const Access& access, bool hit);
  // A miss: the share's policy decides whether the item comes in.
  bool admit(ShareId share, const Access& access);
  // The same for a sample as it is stored, in memory or on the drive, and for its bundle. What
  // comes in is pinned for the read that will bring it. `staging`: the staging memory left on the
  // node that reads the bundle.
  ShareId admit_encoded(const ItemCache& cache, SampleId sample, bool kept_decoded);
  bool admit_bundle(const ItemCache& cache, SampleId sample, Bytes staging);

 private:
  std::uint64_t next_use(const SharePart& part, SampleId sample);

  EngineState& s_;
  Future future_{s_};
  const Around* around_ = nullptr;
  std::array<std::optional<std::uint64_t>, 2> next_uses_;  // of the sample: as stored, decoded
  std::vector<ItemId> gone_;                               // scratch
};

}  // namespace batchflow::engine
