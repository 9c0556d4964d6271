#include "tests/driver/live_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/random.h"
#include "tests/driver/machine.h"

namespace batchflow::test {

void LiveCheck::grew(std::uint64_t first, std::uint64_t end, bool ended) {
  if (first != firsts_.back()) firsts_.push_back(first);
  end_ = end;
  ended_ = ended;
}

void LiveCheck::had(std::uint64_t record) {
  if (reservoir_.size() < reservoir_most_) return reservoir_.push_back(record);
  if (reservoir_most_ == 0) return;
  // The job's first record is 0.
  Random random(hash(14, root_.dataset_version, root_.seed, record));
  const std::uint64_t slot = random.below(record + 1);
  if (slot < reservoir_most_) reservoir_[slot] = record;
}

// Which record was the oldest when the step was decided cannot be seen: any that was will do.
bool LiveCheck::can_be_fill(const Given& given, std::uint64_t number, std::uint64_t records) const {
  if (reservoir_most_ > 0) {
    if (reservoir_.empty()) return false;
    Random random(hash(12, root_.dataset_version, root_.seed, number));
    return given.sample.value == reservoir_[random.below(reservoir_.size())] &&
           given.occurrence == number + 1;
  }
  return std::any_of(firsts_.begin(), firsts_.end(), [&](std::uint64_t first) {
    const std::uint64_t from = std::max(first, next_ > window_ ? next_ - window_ : 0);
    const std::uint64_t to = from < next_ ? next_ : cut_ ? next_ + records : from;
    if (from >= to) return false;
    Random random(hash(12, root_.dataset_version, root_.seed, number));
    return given.sample.value == from + random.below(to - from) && given.occurrence == number + 1;
  });
}

// Without a record to draw, the step rehearses nothing.
std::uint64_t LiveCheck::records_most(std::uint64_t ranks, std::uint32_t batch_samples) const {
  const bool may_have_none =
      reservoir_most_ > 0
          ? next_ == 0
          : window_ == 0 || *std::max_element(firsts_.begin(), firsts_.end()) >= next_;
  return ranks * (batch_samples - (may_have_none ? 0 : rehearsed_));
}

std::uint64_t LiveCheck::count(const std::vector<std::vector<Given>>& ranks,
                               std::uint32_t batch_samples, bool last) {
  const auto is_record = [](const Given& given) { return !given.filled; };
  std::uint64_t all = 0;
  for (const std::vector<Given>& batch : ranks)
    all += static_cast<std::uint64_t>(std::count_if(batch.begin(), batch.end(), is_record));
  std::uint64_t next = next_;
  std::uint64_t fills = fills_;
  std::size_t least = SIZE_MAX;
  std::size_t most = 0;
  bool is_short = false;
  for (const std::vector<Given>& batch : ranks) {
    const auto records =
        static_cast<std::size_t>(std::count_if(batch.begin(), batch.end(), is_record));
    least = std::min(least, records);
    most = std::max(most, records);
    is_short = is_short || batch.size() < batch_samples;
    bool filling = false;
    for (const Given& given : batch) {
      if (filling && !given.filled) violated("a record stands behind a fill");
      filling = given.filled;
      if (filling) {
        if (window_ == 0 && reservoir_most_ == 0)
          violated("a step is filled, which was not asked for");
        if (!can_be_fill(given, fills, all))
          violated(fmt::format("record {} cannot be fill {}", given.sample.value, fills));
        ++fills;
        continue;
      }
      if (given.sample.value != next || given.occurrence != 0)
        violated(fmt::format("record {} came, where {} belongs", given.sample.value, next));
      if (next >= end_) violated(fmt::format("record {} has not come", next));
      ++next;
    }
  }
  if (is_short && (!last || !ended_ || next != end_)) violated("a short step before the end");
  if (is_short && fills != fills_) violated("a tail that is filled");
  if (fills != fills_ && most - least > 1) violated("records are not spread evenly");
  if (fills != fills_ && cut_ && least == 0) violated("a rank without a record");
  if (all > records_most(ranks.size(), batch_samples)) violated("too little is rehearsed");
  const std::uint64_t records = next - next_;
  for (; next_ < next; ++next_) had(next_);
  fills_ = fills;
  return records;
}

bool LiveCheck::is_over(bool drop_last, std::uint64_t ranks, std::uint32_t batch_samples) const {
  return ended_ &&
         (next_ == end_ || (drop_last && end_ - next_ < records_most(ranks, batch_samples)));
}

}  // namespace batchflow::test
