#include "core/order/weighted.h"

#include <algorithm>
#include <array>

#include "core/base/check.h"

namespace batchflow::order {
namespace {

using Wide = unsigned __int128;

// Draw number `index` of the generator that starts at `key`, without the ones before it.
std::uint64_t nth_draw(std::uint64_t key, std::uint64_t index) {
  return Random(key + index * kGolden).draw();
}

Permutation order_of(Drawing drawing, std::uint64_t key, std::uint64_t draws) {
  return drawing == Drawing::systematic ? Permutation(key, draws) : Permutation::identity(draws);
}

}  // namespace

WeightedEpoch::WeightedEpoch(const WeightTree& weights, KeyRoot root, std::uint64_t epoch,
                             std::uint64_t draws, Drawing drawing)
    : weights_(weights),
      draws_(draws),
      drawing_(drawing),
      generation_(hash(weights.digest(), epoch, draws, drawing == Drawing::multinomial ? 1 : 0)),
      start_(Random(weighted_start_key(root, epoch)).below(weights.total())),
      draw_key_(weighted_draw_key(root, epoch)),
      order_(order_of(drawing, weighted_key(root, epoch), draws)) {
  BF_CHECK(weights.total() > 0);
}

Draw WeightedEpoch::at(std::uint64_t index) const {
  BF_CHECK(index < draws_);
  return drawing_ == Drawing::systematic ? systematic(order_(index)) : multinomial(index);
}

void WeightedEpoch::fill(std::uint64_t first, std::span<Draw> out) {
  BF_CHECK(first <= draws_ && out.size() <= draws_ - first);
  if (drawing_ == Drawing::multinomial) {
    for (Draw& draw : out) draw = multinomial(first++);
    return;
  }
  // The samples of a range are found several at a time.
  std::array<std::uint64_t, 64> draws;
  for (std::size_t done = 0; done < out.size(); done += draws.size()) {
    const std::span some(draws.data(), std::min(draws.size(), out.size() - done));
    order_.fill(first + done, some);
    for (std::size_t i = 0; i < some.size(); ++i) out[done + i] = systematic(some[i]);
  }
}

// Draw k is point kT + u of the weights times M. Let the weights of its sample begin at C. The
// first draw of this sample is the least k' with k'T + u >= CM, so k - k' numbers its occurrences.
Draw WeightedEpoch::systematic(std::uint64_t draw) const {
  const std::uint64_t total = weights_.total();
  // Mostly everything fits into 64 bits, and then a division takes a third of the time.
  if ((Wide{draws_} + 1) * total <= UINT64_MAX) {
    const auto [sample, before] = weights_.find((draw * total + start_) / draws_);
    const std::uint64_t begin = before * draws_;
    const std::uint64_t first = begin <= start_ ? 0 : (begin - start_ + total - 1) / total;
    return {sample, draw - first};
  }
  const Wide point = Wide{draw} * total + start_;
  const auto [sample, before] = weights_.find(static_cast<std::uint64_t>(point / draws_));
  const Wide begin = Wide{before} * draws_;
  const Wide first = begin <= start_ ? 0 : (begin - start_ + total - 1) / total;
  return {sample, draw - static_cast<std::uint64_t>(first)};
}

Draw WeightedEpoch::multinomial(std::uint64_t draw) const {
  const std::uint64_t point = high_64_of_product(nth_draw(draw_key_, draw), weights_.total());
  return {weights_.find(point).sample, draw};
}

}  // namespace batchflow::order
