#include "kernels/importance.h"

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/quartiles.h"

namespace batchflow::kernels::on_cpu {

void score_statistics(const float* scores, std::uint64_t samples, ScoreStatistics* out, std::byte*,
                      Stream) {
  std::vector<float> sorted(scores, scores + samples);
  for (float& score : sorted)
    if (score != score || score == 0) score = 0;  // nor -0: a GPU tells the zeros apart
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](int which) {
    return quartile(which, samples, sorted[rank_of(2 * which, samples)],
                    sorted[rank_of(2 * which + 1, samples)]);
  };
  *out = {at(0), at(1), at(2)};
}

void normalise_scores(const float* scores, std::uint64_t samples, const ScoreStatistics* statistics,
                      float* out, Stream) {
  for (std::uint64_t i = 0; i < samples; ++i) out[i] = statistics->normalised(scores[i]);
}

void draw_by_weight(const std::uint32_t* weights, std::uint64_t samples, const Draws& draws,
                    std::uint64_t* out, std::byte*, Stream) {
  using Wide = unsigned __int128;
  std::uint64_t total = 0;
  for (std::uint64_t i = 0; i < samples; ++i) total += weights[i];
  const auto start = static_cast<std::uint64_t>((Wide{draws.random} * total) >> 64);
  std::uint64_t sample = 0, end = weights[0];
  for (std::uint64_t k = 0; k < draws.count; ++k) {
    const auto point = static_cast<std::uint64_t>((Wide{k} * total + start) / draws.count);
    while (end <= point) end += weights[++sample];
    out[k] = sample;
  }
}

}  // namespace batchflow::kernels::on_cpu
