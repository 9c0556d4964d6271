// A job's epochs as sequences of indices, and the blocks that cover them.
//
// A run is one epoch of a job, from where the job began it; of a live job, a generation of its
// epoch. It has the plain sequence, for which
// the order makes its promise, and beside it the sequence of what is rehearsed. A grant is a block
// given to the job. A cut is a piece of a grant at consecutive indices. Most grants are one cut.
// Where each node has a sequence of its own, its blocks lie at the indices of that node's ranks.
// Indices are cut in their order, each from the one open block of its node, so that the samples of
// a block always come from its first on, whichever rank has them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/engine/event.h"
#include "core/engine/indices.h"
#include "core/order/lanes.h"
#include "core/order/position.h"
#include "core/order/rehearsal.h"

namespace batchflow::engine {

// Names a block, and notices that the block is gone.
struct Handle {
  BlockIndex index = BlockIndex::none();
  std::uint64_t serial = 0;
};

// Samples [from, to) of a block are the job's.
struct Grant {
  Handle block;
  order::BlockRef ref;
  order::BlockName name;
  order::LaneSizes sizes;
  std::uint32_t from = 0;  // not cut into the sequence yet
  std::uint32_t to = 0;
  std::uint32_t unserved = 0;  // samples of it not delivered yet, fillers included
  std::uint32_t cuts = 0;      // that are not committed
  bool made = true;            // it was there before
  bool wanted = false;         // a batch waits for it, and it is gone: to be made
  std::shared_ptr<const order::Rehearsal>
      rehearsal;  // it has draws of this one; null: it is of the plain order
};

// Samples [from, from + count) of a grant, at indices [start, start + count).
struct Cut {
  std::uint64_t start = 0;
  std::uint32_t count = 0;
  std::uint32_t from = 0;
  std::uint64_t grant = 0;  // number in its sequence
};

class Sequence {
 public:
  std::uint64_t begin = 0;    // its first index in this run
  std::uint64_t granted = 0;  // how many indices have been cut, from there on
  std::deque<Grant> grants;   // oldest first

  std::uint64_t end() const { return begin + granted; }
  Grant& grant(std::uint64_t number) { return grants[number - forgotten_]; }
  const Grant& grant(std::uint64_t number) const { return grants[number - forgotten_]; }
  // Answers the number of the new grant.
  std::uint64_t add(Grant&& grant);
  // Puts the next samples of the grant, at most `most`, at the next indices.
  const Cut& cut(std::uint64_t number, std::uint64_t most);
  // REQUIRES: that index is cut, and not forgotten
  const Cut& cut_at(std::uint64_t index) const;
  Grant& grant_at(std::uint64_t index) { return grant(cut_at(index).grant); }
  // All indices below `end` are committed. Calls visit(Grant&) for grants that only these needed.
  template <class Visit>
  void forget(std::uint64_t end, Visit visit) {
    for (; !cuts_.empty() && cuts_.front().start + cuts_.front().count <= end; cuts_.pop_front()) {
      --grant(cuts_.front().grant).cuts;
    }
    while (!grants.empty() && grants.front().cuts == 0 &&
           grants.front().from == grants.front().to) {
      visit(grants.front());
      grants.pop_front();
      ++forgotten_;
    }
  }
  // Calls `visit` with a Slice for each piece of a block at these indices, in their order.
  template <class Visit>
  void for_each_slice(order::IndexRange indices, Visit visit) {
    for (std::uint64_t at = indices.from; at < indices.to;) {
      const Cut& one = cut_at(at);
      const std::uint64_t until = std::min(indices.to, one.start + one.count);
      const Grant& given = grant(one.grant);
      visit(at, given,
            order::Slice{given.name, one.from + static_cast<std::uint32_t>(at - one.start),
                         one.from + static_cast<std::uint32_t>(until - one.start), false,
                         given.rehearsal != nullptr});
      at = until;
    }
  }

 private:
  std::uint64_t forgotten_ = 0;  // grants
  std::deque<Cut> cuts_;         // not committed, in the order of their indices
};

// The lanes of which a job's epoch has had some samples and not all, as its indices are cut.
//
// A position holds a limited number of them (order rules, section 7). Where all nodes cut from one
// sequence, these are nearly always the lanes with blocks to take. Where each node has an open
// block of its own, a lane is begun, too, while its last block is open: there may be as many as
// there are nodes.
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

// One epoch of a job, or one generation of a live job, from where it began to the last commit.
struct EpochRun {
  std::uint32_t epoch = 0;
  order::RehearsalPlan plan;
  std::uint64_t first_step = 0;  // of the job
  std::uint64_t steps = 0;
  std::uint64_t acknowledged = 0;  // samples in committed steps, from where it began
  bool ended = false;              // all its steps are committed, and ranks were told
  Sequence plain;
  Sequence rehearsed;
  std::shared_ptr<const order::Rehearsal> rehearsal;  // null: nothing is rehearsed
  // The block that each node has open. With one sequence for all ranks, `node` is none.
  struct Open {
    NodeId node;
    std::uint64_t grant = 0;
  };
  std::vector<Open> open;
  BegunLanes begun;  // where each node has a sequence of its own

  std::array<Sequence*, 2> sequences() { return {&plain, &rehearsed}; }
  Sequence& sequence_of(const order::Slice& slice) { return slice.rehearsed ? rehearsed : plain; }
};

}  // namespace batchflow::engine
