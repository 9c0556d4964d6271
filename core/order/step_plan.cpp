#include "core/order/step_plan.h"

namespace batchflow::order {

std::uint64_t StepPlan::steps() const {
  BF_CHECK(consumed <= samples && ranks > 0 && batch_samples > 0);
  const std::uint64_t left = samples - consumed;
  const bool tail = !drop_last && left % step_samples() != 0;
  return left / step_samples() + (tail ? 1 : 0);
}

std::uint64_t StepPlan::rank_samples(std::uint64_t t) const {
  const std::uint64_t count = step(t).count();
  return count == step_samples() ? batch_samples : (count + ranks - 1) / ranks;
}

std::uint32_t StepPlan::rank_at(std::uint64_t index) const {
  const std::uint64_t t = (index - consumed) / step_samples();
  return static_cast<std::uint32_t>((index - step(t).from) / rank_samples(t));
}

// The entries of a step are its indices followed by fillers; each rank has `share` entries in a
// row. Only a tail has fillers, and then entry e is index from + e mod (number of indices).
RankBatch StepPlan::tail(std::uint64_t t, std::uint32_t rank) const {
  BF_CHECK(rank < ranks);
  const IndexRange indices = step(t);
  const std::uint64_t share = rank_samples(t);
  const std::uint64_t first = rank * share;
  const std::uint64_t last = first + share;
  const std::uint64_t count = indices.count();
  RankBatch result;
  result.own = {indices.from + std::min(first, count), indices.from + std::min(last, count)};
  if (last > count) {
    // Fillers of one rank are at most `share` <= count, so they wrap around at most once.
    const std::uint64_t wanted = last - std::max(first, count);
    const std::uint64_t start = std::max(first, count) % count;
    const std::uint64_t before_wrap = std::min(wanted, count - start);
    result.fillers[0] = {indices.from + start, indices.from + start + before_wrap};
    result.fillers[1] = {indices.from, indices.from + wanted - before_wrap};
  }
  return result;
}

}  // namespace batchflow::order
