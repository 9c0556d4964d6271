// An epoch of samples that are drawn, some of them more than once. A block's name does not say
// which samples it has: the epoch does.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/types.h"

namespace batchflow::order {

// A sample drawn, and what tells this visit from the others: the word `occurrence` of its draw key.
// Systematic draws of a weighted order: 0, 1, ... for each sample of the epoch. Multinomial ones:
// the number of the draw. Of a mixture: the pass of its source.
struct Draw {
  SampleId sample;
  std::uint64_t occurrence = 0;
  friend constexpr bool operator==(const Draw&, const Draw&) = default;
};

class DrawnEpoch {
 public:
  virtual ~DrawnEpoch() = default;

  // The generation in the block names of this epoch. Equal generations have equal draws.
  virtual std::uint64_t generation() const = 0;
  // Whether the draws from this index on are known, or can be found.
  virtual bool has(std::uint64_t first) const = 0;
  // The draws at indices first, first + 1, ... REQUIRES: has(first), all indices are in the epoch
  virtual void fill(std::uint64_t first, std::span<Draw> out) = 0;
};

}  // namespace batchflow::order
