#include "core/order/live_epoch.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/random.h"

namespace batchflow::order {

LiveEpoch::LiveEpoch(KeyRoot root, std::uint64_t generation, std::uint64_t next,
                     std::uint64_t fills, std::uint32_t ranks, std::uint32_t batch_samples,
                     const Filling& filling)
    : root_(root),
      generation_(generation),
      next_(next),
      fills_(fills),
      ranks_(ranks),
      batch_samples_(batch_samples),
      window_(filling.window),
      rehearsed_(filling.rehearsed) {
  BF_CHECK(ranks > 0 && batch_samples > rehearsed_);
  if (filling.exemplars > 0)
    reservoir_.emplace(root.dataset_version,
                       ReservoirName{root.seed, filling.first, filling.exemplars});
}

bool LiveEpoch::has(std::uint64_t first) const {
  const std::uint64_t step = first / step_samples();
  return step >= forgotten_ && step < steps();
}

bool LiveEpoch::can_fill(std::uint64_t oldest, std::uint64_t own) const {
  if (reservoir_) return next_ > reservoir_->name().first;
  return window_ > 0 && (next_ > oldest || own > 0);
}

std::uint64_t LiveEpoch::records_most(std::uint64_t oldest) const {
  return can_fill(oldest) ? step_samples() - std::uint64_t{ranks_} * rehearsed_ : step_samples();
}

void LiveEpoch::decide(std::uint64_t records, std::uint64_t oldest) {
  BF_CHECK(!ended_ && records <= records_most(oldest));
  BF_CHECK(records == step_samples() || can_fill(oldest, records));
  const std::uint64_t fills = step_samples() - records;
  if (reservoir_) {
    BF_CHECK(reservoir_->next() == next_);
    steps_.push_back({next_, records, fills_, 0, 0, drawn_now(fills)});
  } else {
    const std::uint64_t from = std::max(oldest, next_ - std::min(next_, window_));
    const std::uint64_t to = from < next_ ? next_ : next_ + records;
    steps_.push_back({next_, records, fills_, from, to});
  }
  next_ += records;
  fills_ += fills;
  settle(records);
}

// What a reservoir has changes with each step, so its fills are drawn when the step is decided.
std::vector<std::uint32_t> LiveEpoch::drawn_now(std::uint64_t fills) const {
  const std::span<const std::uint32_t> had = reservoir_->records();
  std::vector<std::uint32_t> drawn(fills);
  for (std::uint64_t i = 0; i < fills; ++i)
    drawn[i] = had[Random(fill_key(root_, fills_ + i)).below(had.size())];
  return drawn;
}

void LiveEpoch::end(std::uint64_t records) {
  BF_CHECK(!ended_ && records < step_samples());
  ended_ = true;
  end_index_ = steps() * step_samples() + records;
  if (records == 0) return;
  steps_.push_back({next_, records, fills_, next_, next_, {}});
  next_ += records;
}

LiveEpoch::At LiveEpoch::at(std::uint64_t index) const {
  BF_CHECK(has(index));
  const Step& step = steps_[index / step_samples() - forgotten_];
  const std::uint64_t within = index % step_samples();
  // Without fills the records stand one after the other, also in a last step that is short. What
  // its last block has beyond them is never handed out.
  if (step.records == step_samples() || (step.fill_from == step.fill_to && step.drawn.empty()))
    return {&step, false, step.first_record + within % step.records};
  const std::uint64_t rank = within / batch_samples_;
  const std::uint64_t before = rank * step.records / ranks_;
  const std::uint64_t own = (rank + 1) * step.records / ranks_ - before;
  const std::uint64_t in_batch = within % batch_samples_;
  if (in_batch < own) return {&step, false, step.first_record + before + in_batch};
  return {&step, true, step.first_fill + rank * batch_samples_ - before + in_batch - own};
}

void LiveEpoch::fill(std::uint64_t first, std::span<Draw> out) {
  for (Draw& draw : out) {
    const At here = at(first++);
    if (!here.is_fill) {
      draw = {SampleId(here.number), 0};
      continue;
    }
    // So the random steps draw other numbers than for any earlier visit of the record.
    draw = {SampleId(filled_with(*here.step, here.number)), 1 + here.number};
  }
}

std::uint64_t LiveEpoch::filled_with(const Step& step, std::uint64_t fill) const {
  if (!step.drawn.empty()) return step.drawn[fill - step.first_fill];
  Random random(fill_key(root_, fill));
  return step.fill_from + random.below(step.fill_to - step.fill_from);
}

void LiveEpoch::forget(std::uint64_t before) {
  const std::uint64_t steps = before / step_samples();
  for (; forgotten_ < steps && !steps_.empty(); ++forgotten_) steps_.pop_front();
}

void LiveEpoch::split(std::uint64_t first, const Slice& slice, std::vector<Slice>& out) const {
  if (slice.filler) return out.push_back(slice);
  Slice part = slice;
  for (std::uint32_t from = slice.from; from < slice.to; from = part.to) {
    part.from = from;
    part.rehearsed = is_fill(first + (from - slice.from));
    part.to = from + 1;
    while (part.to < slice.to && is_fill(first + (part.to - slice.from)) == part.rehearsed)
      ++part.to;
    out.push_back(part);
  }
}

}  // namespace batchflow::order
