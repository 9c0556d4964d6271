// An epoch in an order that a policy chooses while the epoch runs.
//
// The samples stand in the order of a permutation. Each block takes some of the first that no block
// has yet, the candidates. Those that it does not take stay candidates, before all others. So each
// sample comes once an epoch, whatever is taken.
//
// A position (core/order/position.h) names the indices that were passed over, so there are at most
// kChosenCandidatesMost candidates at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/order/keys.h"
#include "core/order/permutation.h"
#include "core/order/weighted.h"

namespace batchflow::order {

// A step looks up no more for one block: some 0.1 us each. Blocks have at most half as many
// samples.
inline constexpr std::size_t kChosenCandidatesMost = 8192;

class ChosenEpoch {
 public:
  ChosenEpoch(KeyRoot root, std::uint32_t epoch, std::uint64_t samples);
  // An epoch that goes on in another service. The job has had `taken` indices of the permutation:
  // all up to the last one that it had, but for `left_out`, which are the first candidates. The
  // order in which it had them is not known, so any of them stand for the last `rest` samples.
  // REQUIRES: rest <= taken; left_out is ascending, and below taken + its size
  ChosenEpoch(KeyRoot root, std::uint32_t epoch, std::uint64_t samples, std::uint64_t taken,
              std::span<const std::uint64_t> left_out, std::uint64_t rest);

  std::uint32_t epoch() const { return epoch_; }
  std::uint64_t samples() const { return samples_; }
  // How many samples blocks have taken. Their indices in the epoch will not change.
  std::uint64_t taken() const { return before_ + taken_.size(); }

  struct Candidate {
    SampleId sample;
    std::uint32_t passed_over = 0;  // how often other candidates were taken, and this one was not
    std::uint64_t index = 0;        // in the permutation
  };
  // The oldest `most` candidates, or all that are left. Valid until the next call.
  std::span<const Candidate> candidates(std::size_t most);
  // The candidates with these indices come next, in this order; `offered` were shown.
  // REQUIRES: all below `offered`, none twice; `offered` candidates were asked for just now
  void take(std::span<const std::uint32_t> picks, std::size_t offered);
  // The samples at indices first, first + 1, ... of the epoch.
  // REQUIRES: first + out.size() <= taken(); in an epoch that goes on, first is at least taken -
  // rest
  void fill(std::uint64_t first, std::span<Draw> out) const;
  // Adds the indices in the permutation of the samples at indices [first, end) of the epoch.
  // REQUIRES: as above
  void add_indices(std::uint64_t first, std::uint64_t end, std::vector<std::uint64_t>& out) const;

 private:
  std::uint32_t epoch_;
  std::uint64_t samples_;
  Permutation order_;
  std::uint64_t next_ = 0;           // in the permutation: all before are taken or candidates
  std::uint64_t before_ = 0;         // how many were taken that are not in `taken_`
  std::deque<std::uint64_t> taken_;  // indices in the permutation
  std::vector<Candidate> waiting_;   // oldest first
};

}  // namespace batchflow::order
