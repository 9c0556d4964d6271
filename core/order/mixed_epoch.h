// An epoch of a mixture: which samples its draws are.
//
// Draws are found one after the other and remembered until they are committed. So the weights can
// change from any draw on that was not found yet.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "core/order/drawn_epoch.h"
#include "core/order/keys.h"
#include "core/order/mixing.h"
#include "core/order/permutation.h"

namespace batchflow::order {

class MixedEpoch final : public DrawnEpoch {
 public:
  // Goes on where `mixing` is, at index `consumed` of an epoch of `draws` draws. Indices before it
  // are of blocks that were used in part. They have draws, too, which are never handed out.
  MixedEpoch(Mixing mixing, KeyRoot root, std::uint64_t consumed, std::uint64_t draws);

  std::uint64_t generation() const override { return generation_; }
  bool has(std::uint64_t first) const override { return first >= forgotten_; }
  void fill(std::uint64_t first, std::span<Draw> out) override;

  // Another epoch of as many draws, from `mixing` on. It begins with the draws that this one left
  // out, if any.
  void begin_next_epoch(Mixing mixing);
  // Finds the orders that sources begin with, for at most `most` samples of them. True: all are
  // found. Without it, the first draws would take long.
  bool settle(std::uint64_t most);
  // The draws before this index are not asked for again.
  void forget(std::uint64_t before);

  // The first draw of the mixture, counted from its beginning, at which a change can be made.
  std::uint64_t soonest() const { return mixing_.soonest(); }
  // How many draws one pass of the sample's source takes, with the present weights; 0: the source
  // gives nothing.
  double draws_a_pass(SampleId sample) const;
  std::string problem_of(const MixtureChange& change) const { return mixing_.problem_of(change); }
  // REQUIRES: problem_of(change).empty()
  void change(MixtureChange change) { mixing_.change(std::move(change)); }

 private:
  struct Pass {
    std::uint64_t number = 0;
    std::optional<Permutation> order;
  };
  const Permutation& order_of(std::uint32_t source, std::uint64_t pass);
  void draw_next();

  Mixing mixing_;
  KeyRoot root_;
  std::uint64_t draws_;
  std::uint64_t generation_;
  std::uint64_t begin_;                   // the index at which it goes on
  std::uint64_t forgotten_ = 0;           // indices before
  std::deque<Draw> found_;                // from index max(begin_, forgotten_) on
  std::vector<Pass> passes_;              // a source
  std::vector<std::uint32_t> by_sample_;  // sources, in the order of their samples
  std::uint32_t settled_ = 0;             // sources
};

}  // namespace batchflow::order
