// What policies are shown of the work that is done: what jobs want and how long they wait, what a
// sample costs, what limits a node.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>

#include "core/engine/item_shares.h"
#include "core/engine/state.h"

namespace batchflow::engine {

class Facts {
 public:
  Facts(const EngineState& state, const ItemShares& item_shares)
      : s_(state), item_shares_(item_shares) {}

  // Adds to the views of a place and its shares what `Memory` does not know.
  void complete(PlaceView& place, std::span<ShareView> views, const Allocation::Shares& shares);

 private:
  // Of the jobs of one stream, or of all that read one form of a dataset.
  struct Demand {
    double weight = 0;
    double stalled = 0;  // sum of the jobs' weights times the part of their time that they wait
    double wanted_per_s = 0;
    double made_per_s = 0;
    double saved_s = 0;  // sum over streams of what they make times what decoding costs
  };
  void count(const Stream& stream, Demand& sum) const;
  Demand count(const SharePart& part, const Dataset& dataset) const;
  const Demand& demand(const SharePart& part, const Dataset& dataset);
  void complete(ShareView& view, const SharePart& part);

  const EngineState& s_;
  const ItemShares& item_shares_;
  // Of a stream, or else of a dataset and the prefix of a form, as counted in this round of plans.
  // A stream has a share on each node where it has jobs, and all of its jobs are counted for each
  // share.
  std::map<std::tuple<StreamId, DatasetId, Digest>, Demand> demands_;
  std::uint64_t round_ = 0;
};

}  // namespace batchflow::engine
