// An epoch of samples that a program asks for by their keys (docs/order.md, "Keyed jobs").
//
// Index i is the i-th key that was asked for in the epoch. An index has its draw from then on; what
// is committed is forgotten. A block is one sample, and a step one block, so that no key waits for
// another. An epoch has kBlocks keys, which only bounds what is remembered: the next epoch goes on
// from there.
#pragma once

#include <cstdint>
#include <deque>
#include <span>

#include "core/order/drawn_epoch.h"

namespace batchflow::order {

class KeyedEpoch final : public DrawnEpoch {
 public:
  static constexpr std::uint64_t kBlocks = std::uint64_t{1} << 14;

  // `generation` tells its blocks from those of other jobs, and of other times.
  explicit KeyedEpoch(std::uint64_t generation) : generation_(generation) {}

  std::uint64_t generation() const override { return generation_; }
  bool has(std::uint64_t first) const override { return first >= forgotten_ && first < asked(); }
  // A random step draws by the index, so each visit of a sample has other draws.
  void fill(std::uint64_t first, std::span<Draw> out) override;

  // How many keys were asked for, from the epoch's beginning on. Those beyond kBlocks are of the
  // next epoch.
  std::uint64_t asked() const { return forgotten_ + keys_.size(); }
  void ask(std::span<const SampleId> keys) { keys_.insert(keys_.end(), keys.begin(), keys.end()); }
  // What stands before this index is not asked for again.
  void forget(std::uint64_t before);
  // REQUIRES: all of this epoch is forgotten
  void begin_next_epoch();

 private:
  std::uint64_t generation_;
  std::uint64_t before_ = 0;  // keys of the epochs before
  std::uint64_t forgotten_ = 0;
  std::deque<SampleId> keys_;  // asked for, and not forgotten
};

}  // namespace batchflow::order
