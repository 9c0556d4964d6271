// The first index of each sample in a block: a hash table that is used again for each block.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "core/base/random.h"
#include "core/base/types.h"

namespace batchflow::engine {

class FirstPlaces {
 public:
  // Begins a block of `samples` samples.
  void clear(std::size_t samples) {
    slots_.assign(std::bit_ceil(2 * samples + 1), {SampleId(0), kFree});
  }
  // The least index with which this was called for the sample; that is `place` the first time.
  // REQUIRES: called no more often than there are samples
  std::uint32_t of(SampleId sample, std::uint32_t place) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = mix(sample.value) & mask;
    while (slots_[at].place != kFree && slots_[at].sample != sample) at = (at + 1) & mask;
    if (slots_[at].place == kFree) slots_[at] = {sample, place};
    return slots_[at].place;
  }

 private:
  static constexpr std::uint32_t kFree = UINT32_MAX;
  struct Slot {
    SampleId sample;
    std::uint32_t place;
  };
  std::vector<Slot> slots_;
};

}  // namespace batchflow::engine
