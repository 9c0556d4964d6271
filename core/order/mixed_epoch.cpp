#include "core/order/mixed_epoch.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/check.h"
#include "core/base/random.h"

namespace batchflow::order {

MixedEpoch::MixedEpoch(Mixing mixing, KeyRoot root, std::uint64_t consumed, std::uint64_t draws)
    : mixing_(std::move(mixing)),
      root_(root),
      draws_(draws),
      generation_(hash(mixing_.digest(), consumed, draws)),
      begin_(consumed),
      passes_(mixing_.sources().size()),
      by_sample_(passes_.size()) {
  std::iota(by_sample_.begin(), by_sample_.end(), 0);
  std::sort(by_sample_.begin(), by_sample_.end(), [this](std::uint32_t a, std::uint32_t b) {
    return mixing_.sources()[a].first < mixing_.sources()[b].first;
  });
}

void MixedEpoch::begin_next_epoch(Mixing mixing) {
  mixing_ = std::move(mixing);
  begin_ = forgotten_ = 0;
  found_.clear();
  generation_ = hash(mixing_.digest(), 0, draws_);
}

double MixedEpoch::draws_a_pass(SampleId sample) const {
  const auto next = std::upper_bound(
      by_sample_.begin(), by_sample_.end(), sample,
      [this](SampleId at, std::uint32_t source) { return at < mixing_.sources()[source].first; });
  if (next == by_sample_.begin()) return 0;
  const SampleRange& source = mixing_.sources()[*(next - 1)];
  const std::uint64_t part = mixing_.part(*(next - 1));
  if (sample.value - source.first.value >= source.samples || part == 0) return 0;
  return static_cast<double>(source.samples) * Mixture::kWhole / static_cast<double>(part);
}

const Permutation& MixedEpoch::order_of(std::uint32_t source, std::uint64_t pass) {
  Pass& last = passes_[source];
  if (!last.order || last.number != pass) {
    const auto [first, samples] = mixing_.sources()[source];
    last.number = pass;
    last.order = mixing_.is_shuffled() ? Permutation(source_key(root_, first, pass), samples)
                                       : Permutation::identity(samples);
  }
  return *last.order;
}

bool MixedEpoch::settle(std::uint64_t most) {
  std::uint64_t done = 0;
  for (; settled_ < passes_.size(); ++settled_) {
    const std::uint64_t samples = mixing_.sources()[settled_].samples;
    if (mixing_.part(settled_) == 0 || samples > Permutation::kTableMost) continue;
    if (done > 0 && done + samples > most) return false;
    done += samples;
    order_of(settled_, mixing_.taken(settled_) / samples);
  }
  return true;
}

void MixedEpoch::draw_next() {
  const Mixing::Draw next = mixing_.next();
  const SampleRange& source = mixing_.sources()[next.source];
  const std::uint64_t pass = next.item / source.samples;
  const std::uint64_t sample = order_of(next.source, pass)(next.item % source.samples);
  found_.push_back({SampleId(source.first.value + sample), pass});
  mixing_.take();
}

void MixedEpoch::fill(std::uint64_t first, std::span<Draw> out) {
  BF_CHECK(has(first));
  const std::uint64_t known = std::max(begin_, forgotten_);
  const std::uint64_t end = std::max(first + out.size(), begin_ + 1);
  while (known + found_.size() < end) draw_next();
  // What lies before its beginning is never handed out, but it is prepared with the block.
  for (Draw& draw : out) draw = found_[std::max(first++, known) - known];
}

void MixedEpoch::forget(std::uint64_t before) {
  const std::uint64_t known = std::max(begin_, forgotten_);
  if (before <= known) return;
  const std::uint64_t count = std::min<std::uint64_t>(before - known, found_.size());
  found_.erase(found_.begin(), found_.begin() + static_cast<std::ptrdiff_t>(count));
  forgotten_ = known + count;
}

}  // namespace batchflow::order
