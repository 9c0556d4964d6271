// What the allocation policy wants of a place, and what becomes of it.
//
// The policy says how many slots each share of a place should have. An answer that exceeds the
// place is refused and counted: then the shares keep what they have. Each share is raised to what
// it was promised. What is left over goes to shares without jobs. `Memory` then moves the slots.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/base/types.h"
#include "core/engine/explain.h"
#include "core/engine/question.h"
#include "core/engine/share_part.h"

namespace batchflow::engine {

class Allocation {
 public:
  using Shares = IndexedPool<SharePart, ShareId>;
  // Adds to the views what the engine's other parts know of the place and of its shares.
  using Complete = std::function<void(PlaceView&, std::span<ShareView>, const Shares&)>;

  // `explain` and `asked` outlive it.
  Allocation(const PolicyChoice& choice, std::uint64_t seed, const Explain& explain, Asked& asked);

  void change(const PolicyChoice& choice);
  void complete_with(Complete complete) { complete_ = std::move(complete); }
  // Sets the target of each share of the place. `room`: what they may have together. Returns when
  // the policy wants to be asked again.
  Instant plan(Instant now, Place place, Bytes room, std::span<const ShareId> of_place,
               Shares& shares);
  std::uint64_t refused() const { return refused_; }

 private:
  void show(Instant now, SharePart& share, ShareId id);
  bool exceeds(Bytes room) const;
  void raise_to_promises(Bytes room, std::span<const ShareId> of_place, const Shares& shares);
  void keep_idle(Bytes room, std::span<const ShareId> of_place, const Shares& shares);

  PolicyChoice choice_;  // the policy refers to its parameters
  std::unique_ptr<AllocationPolicy> policy_;
  std::uint64_t seed_;
  const Explain& explain_;
  Asked& asked_;
  Complete complete_;
  std::uint64_t made_ = 0;  // policies
  std::uint64_t refused_ = 0;
  // Scratch, an entry for each share of the place.
  std::vector<ShareView> views_;
  std::vector<Slots> slots_;
  std::vector<std::size_t> idle_;
};

}  // namespace batchflow::engine
