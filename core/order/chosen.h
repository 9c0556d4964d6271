// An epoch whose order a policy chooses while it runs.
//
// The samples stand in the order of a permutation. Each block takes some of the first that no block
// has yet, the candidates. Those that it does not take stay candidates, before all others. So each
// sample comes once an epoch, whatever is taken.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/order/keys.h"
#include "core/order/permutation.h"
#include "core/order/weighted.h"

namespace batchflow::order {

class ChosenEpoch {
 public:
  ChosenEpoch(KeyRoot root, std::uint32_t epoch, std::uint64_t samples);

  std::uint32_t epoch() const { return epoch_; }
  std::uint64_t samples() const { return samples_; }
  // How many samples blocks have taken. Their indices will not change.
  std::uint64_t taken() const { return taken_.size(); }

  struct Candidate {
    SampleId sample;
    std::uint32_t passed_over = 0;  // how often some of the candidates were taken, and it was not
  };
  // The oldest `most` candidates, or all that are left. Valid until the next call.
  std::span<const Candidate> candidates(std::size_t most);
  // These of the candidates come next, in this order; `offered` were shown.
  // REQUIRES: all below `offered`, none twice; `offered` candidates were asked for just now
  void take(std::span<const std::uint32_t> picks, std::size_t offered);
  // The samples at indices first, first + 1, ... REQUIRES: first + out.size() <= taken()
  void fill(std::uint64_t first, std::span<Draw> out) const;

 private:
  std::uint32_t epoch_;
  std::uint64_t samples_;
  Permutation order_;
  std::uint64_t next_ = 0;  // in the permutation: all before are taken or candidates
  std::deque<SampleId> taken_;
  std::vector<Candidate> waiting_;  // oldest first
};

}  // namespace batchflow::order
