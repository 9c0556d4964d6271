// Which good samples replace corrupt ones, and how many corrupt ones are too many.
//
// The candidates for a corrupt sample depend on its own visit alone, not on the block it is in. So
// a strict sequence stays the same for any batch size, world size and node.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "core/order/keys.h"

namespace batchflow::order {

// After so many corrupt candidates in a row the job ends with an error.
inline constexpr std::uint32_t kReplacementAttemptsMost = 64;

// The k-th candidate for a corrupt sample, one of `range`.
constexpr SampleId replacement_candidate(KeyRoot root, std::uint64_t generation, std::uint32_t pass,
                                         SampleId corrupt, std::uint32_t attempt,
                                         SampleRange range) {
  return SampleId(
      range.first.value +
      high_64_of_product(replacement_key(root, generation, pass, corrupt, attempt), range.samples));
}

// The first good candidate; empty when all are corrupt. `is_corrupt(SampleId)` answers which are.
template <class IsCorrupt>
constexpr std::optional<SampleId> replacement(KeyRoot root, std::uint64_t generation,
                                              std::uint32_t pass, SampleId corrupt,
                                              SampleRange range, IsCorrupt is_corrupt) {
  for (std::uint32_t k = 0; k < kReplacementAttemptsMost; ++k) {
    const auto candidate = replacement_candidate(root, generation, pass, corrupt, k, range);
    if (!is_corrupt(candidate)) return candidate;
  }
  return std::nullopt;
}

// So many corrupt samples never end a job, however small its dataset is.
inline constexpr std::uint64_t kCorruptLeast = 8;

// How many of these samples, which ascend, are in the range.
inline std::uint64_t samples_in(std::span<const SampleId> samples, SampleRange range) {
  const SampleId end(range.first.value + range.samples);
  return static_cast<std::uint64_t>(std::lower_bound(samples.begin(), samples.end(), end) -
                                    std::lower_bound(samples.begin(), samples.end(), range.first));
}

}  // namespace batchflow::order
