#include "core/order/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace batchflow::order {
namespace {

// REQUIRES: divisor > 0
__int128 ceiling(__int128 what, std::uint64_t divisor) {
  return what <= 0 ? what / divisor : (what + divisor - 1) / divisor;
}

}  // namespace

std::vector<std::uint64_t> Mixture::parts_of(std::span<const double> weights) {
  const double most = *std::max_element(weights.begin(), weights.end());
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0,
                                     [most](double all, double one) { return all + one / most; });
  std::vector<std::uint64_t> parts;
  std::vector<std::pair<double, std::size_t>> rests;
  std::uint64_t given = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double exact = weights[i] / most / sum * static_cast<double>(kWhole);
    parts.push_back(static_cast<std::uint64_t>(exact));
    given += parts.back();
    if (weights[i] > 0) rests.emplace_back(std::floor(exact) - exact, i);
  }
  // What rounding down has left goes to those that lost most.
  std::sort(rests.begin(), rests.end());
  for (std::size_t i = 0; given < kWhole; ++i, ++given) ++parts[rests[i % rests.size()].second];
  return parts;
}

Mixture::Mixture(std::span<const std::uint64_t> parts, std::span<const std::uint32_t> lengths) {
  for (const std::uint32_t length : lengths) sources_.emplace_back().length = length;
  set_parts(parts);
}

Mixture::Mixture(std::span<const State> states) {
  for (const State& state : states) now_ += state.taken;
  for (const State& state : states)
    sources_.push_back({state.part, 1, state.taken, state.behind, now_});
  for (std::uint32_t i = 0; i < sources_.size(); ++i) enqueue(i);
  admit();
}

void Mixture::set_parts(std::span<const std::uint64_t> parts) {
  ready_ = {};
  waiting_ = {};
  // What was due from sources that give nothing any more is due from the others.
  __int128 left = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    bring_up_to_date(sources_[i]);
    sources_[i].part = parts[i];
    if (parts[i] == 0) left += std::exchange(sources_[i].behind, 0);
  }
  const __int128 whole = left;
  for (Source& source : sources_) {
    const __int128 share = whole * source.part / kWhole;
    source.behind += share;
    left -= share;
  }
  for (std::uint32_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].part > 0) sources_[i].behind += std::exchange(left, 0);  // of rounding
    enqueue(i);
  }
  admit();
}

void Mixture::take(std::uint32_t length) {
  const std::uint32_t number = next();
  ready_.pop();
  Source& source = sources_[number];
  now_ += source.length;
  bring_up_to_date(source);
  source.taken += source.length;
  source.behind -= static_cast<__int128>(source.length) * kWhole;
  source.length = length;
  enqueue(number);
  admit();
}

__int128 Mixture::behind(std::uint32_t source) const {
  const Source& one = sources_[source];
  return one.behind + static_cast<__int128>(one.part) * (now_ - one.as_of);
}

void Mixture::bring_up_to_date(Source& source) {
  source.behind += static_cast<__int128>(source.part) * (now_ - source.as_of);
  source.as_of = now_;
}

// A source may be taken from as soon as what will be due when its item has been taken is more than
// what it has had: not before `now + (ahead - part * length) / part`.
void Mixture::enqueue(std::uint32_t number) {
  const Source& source = sources_[number];
  if (source.part == 0) return;
  const __int128 ahead = -source.behind - static_cast<__int128>(source.part) * source.length;
  const __int128 wait = ahead < 0 ? 0 : ahead / source.part + 1;
  waiting_.push({now_ + static_cast<std::uint64_t>(wait), number});
}

void Mixture::admit() {
  while (!waiting_.empty() && waiting_.top().at <= now_) {
    const std::uint32_t number = waiting_.top().source;
    waiting_.pop();
    const Source& source = sources_[number];
    const __int128 owed = static_cast<__int128>(source.length) * kWhole - source.behind;
    const __int128 at = source.as_of + ceiling(owed, source.part);
    ready_.push({static_cast<std::uint64_t>(std::max<__int128>(at, 0)), number});
  }
}

}  // namespace batchflow::order
