// An epoch of a weighted order: M draws by weight, with replacement, in a random order.
//
// `systematic`: M equidistant points, from a random start, on the running sum of the weights. So
// sample i occurs floor or ceil of M q_i / T times, which no independent draws can promise. The
// order of the points is then permuted. `multinomial`: independent draws, for parity with published
// systems. All arithmetic is in integers. Any index of the epoch can be computed alone, in O(log
// N).
#pragma once

#include <cstdint>
#include <span>

#include "core/order/drawn_epoch.h"
#include "core/order/keys.h"
#include "core/order/permutation.h"
#include "core/order/weights.h"

namespace batchflow::order {

enum class Drawing : std::uint8_t { systematic, multinomial };

class WeightedEpoch final : public DrawnEpoch {
 public:
  // `weights` must outlive it, unchanged. REQUIRES: weights.total() > 0, draws <= kSamplesMost
  WeightedEpoch(const WeightTree& weights, KeyRoot root, std::uint64_t epoch, std::uint64_t draws,
                Drawing drawing);

  std::uint64_t draws() const { return draws_; }
  // It names everything that the draws follow from, beside the key root.
  std::uint64_t generation() const override { return generation_; }
  bool has(std::uint64_t) const override { return true; }
  // REQUIRES: index < draws()
  Draw at(std::uint64_t index) const;
  // REQUIRES: first + out.size() <= draws()
  void fill(std::uint64_t first, std::span<Draw> out) override;

 private:
  Draw systematic(std::uint64_t draw) const;
  Draw multinomial(std::uint64_t draw) const;

  const WeightTree& weights_;
  std::uint64_t draws_;
  Drawing drawing_;
  std::uint64_t generation_;
  std::uint64_t start_;     // u, of systematic draws
  std::uint64_t draw_key_;  // of multinomial ones
  Permutation order_;       // index -> systematic draw
};

}  // namespace batchflow::order
