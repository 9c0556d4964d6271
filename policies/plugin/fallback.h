// What is answered for a policy of a plugin that has failed: what starves no job and keeps what is
// kept.
#pragma once

#include <algorithm>

#include "core/engine/policy.h"

namespace batchflow::plugin::fallback {

inline void allocate(const engine::PlaceView& place, std::span<Slots> slots) {
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = place.shares[i].slots_now;
}

// The oldest that is ready.
inline std::size_t choose(const engine::SelectionView& view) {
  for (std::size_t i = 0; i < view.candidates.size(); ++i) {
    if (view.candidates[i].ready) return i;
  }
  return engine::kNoChoice;
}
inline void choose_samples(std::span<std::uint32_t> picks) {
  for (std::uint32_t i = 0; i < picks.size(); ++i) picks[i] = i;
}
inline void weigh(std::span<const float> scores, std::span<float> weights) {
  std::copy(scores.begin(), scores.end(), weights.begin());
}

// The oldest need.
inline std::size_t next(const engine::DispatchView& view) {
  std::size_t oldest = view.candidates.empty() ? engine::kNoChoice : 0;
  for (std::size_t i = 1; i < view.candidates.size(); ++i) {
    if (view.candidates[i].asked < view.candidates[oldest].asked) oldest = i;
  }
  return oldest;
}

inline std::uint32_t workers(const engine::NodeView& node) {
  return std::max(node.workers_now, 1u);
}
inline std::uint32_t depth(const engine::JobView& job) {
  return std::min(job.window, 2u);
}

// Asked again after so many samples: never.
inline constexpr std::uint64_t kEvery = UINT64_MAX;
// The sources keep their weights.
inline void weigh(const engine::MixtureView& view, std::span<double> weights) {
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = view.sources[i].weight;
}

}  // namespace batchflow::plugin::fallback
