// What importance sampling computes of all samples of a dataset at once: the median and quartiles
// of their scores, normalised scores, and draws by weight.
//
// Statistics are exact: those of the sorted scores, between two of them in proportion, as numpy's
// `percentile` has them. Draws are those of core/order/weighted.h. A score that is not a number
// counts as 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/where.h"

namespace batchflow::kernels {

struct ScoreStatistics {
  float lower = 0, median = 0, upper = 0;  // quartiles

  // How many distances between the quartiles a score is above the median; 0 where there is none.
  BF_ANYWHERE float normalised(float score) const {
    const float range = upper - lower;
    if (score != score) score = 0;
    return range > 0 ? (score - median) / range : 0.0f;
  }
};

// M draws by weight: draw k is point kT + u of the weights times M, T being their sum. So a sample
// is drawn M times its weight over T, rounded up or down.
struct Draws {
  std::uint64_t count = 0;   // M. REQUIRES: below 2^40
  std::uint64_t random = 0;  // of 64 bits; u is this share of T
};

std::size_t statistics_scratch_bytes();
std::size_t draw_scratch_bytes(std::uint64_t samples);

// All pointers are to memory of the processor that it runs on. REQUIRES: samples > 0; scratch
// aligned to 256
namespace on_cpu {
void score_statistics(const float* scores, std::uint64_t samples, ScoreStatistics* out,
                      std::byte* scratch = nullptr, Stream stream = nullptr);
void normalise_scores(const float* scores, std::uint64_t samples, const ScoreStatistics* statistics,
                      float* out, Stream stream = nullptr);
// REQUIRES: some weight is not 0
void draw_by_weight(const std::uint32_t* weights, std::uint64_t samples, const Draws& draws,
                    std::uint64_t* out, std::byte* scratch = nullptr, Stream stream = nullptr);
}  // namespace on_cpu
namespace on_gpu {
void score_statistics(const float* scores, std::uint64_t samples, ScoreStatistics* out,
                      std::byte* scratch, Stream stream);
void normalise_scores(const float* scores, std::uint64_t samples, const ScoreStatistics* statistics,
                      float* out, Stream stream);
void draw_by_weight(const std::uint32_t* weights, std::uint64_t samples, const Draws& draws,
                    std::uint64_t* out, std::byte* scratch, Stream stream);
}  // namespace on_gpu

}  // namespace batchflow::kernels
