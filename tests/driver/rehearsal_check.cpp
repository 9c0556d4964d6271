#include "tests/driver/rehearsal_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/driver/machine.h"

namespace batchflow::test {

void RehearsalCheck::began() {
  last_.clear();
  since_ = told_.size() - 1;
  first_step_ = true;
}

void RehearsalCheck::handed(std::uint32_t epoch) {
  last_.try_emplace(epoch, told_.size() - 1);
}

void RehearsalCheck::count(std::uint32_t epoch, std::uint64_t generation,
                           const std::vector<Drawn>& draws) {
  const std::uint64_t mine = draws.empty() ? 0 : generation;
  if (!first_step_ && mine != part_.generation) violated("an epoch that changes its buffer");
  if (first_step_) {
    if (mine != part_.generation) {
      end_part();
      part_ = {mine, draws_, {}, {}};
    }
    part_.candidates.clear();
    for (std::size_t i = since_; i <= last_.at(epoch); ++i) {
      if (told_[i].empty() == draws.empty()) part_.candidates.push_back(i);
    }
    if (part_.candidates.empty()) violated("no buffer that says whether anything is rehearsed");
  }
  first_step_ = false;
  draws_ += draws.size();
  for (const Drawn& draw : draws) {
    if (!visits_.emplace(draw.sample.value, draw.occurrence).second) {
      violated(fmt::format("sample {} is rehearsed twice with the same draws", draw.sample.value));
    }
    part_.samples.push_back(draw.sample);
  }
}

// In each round of as many draws as there are exemplars none comes more often than it should.
bool RehearsalCheck::can_be_of(const Part& part, const Buffer& buffer) {
  if (buffer.empty()) return part.samples.empty();
  Buffer sorted = buffer;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < part.samples.size();) {
    const std::size_t left = buffer.size() - (part.first + i) % buffer.size();
    const std::size_t to = std::min(part.samples.size(), i + left);
    Buffer round(part.samples.begin() + static_cast<std::ptrdiff_t>(i),
                 part.samples.begin() + static_cast<std::ptrdiff_t>(to));
    std::sort(round.begin(), round.end());
    if (!std::includes(sorted.begin(), sorted.end(), round.begin(), round.end())) return false;
    i = to;
  }
  return true;
}

void RehearsalCheck::end_part() {
  if (part_.samples.empty()) return;
  const auto of = std::find_if(part_.candidates.begin(), part_.candidates.end(),
                               [&](std::size_t i) { return can_be_of(part_, told_[i]); });
  if (of == part_.candidates.end()) {
    violated("draws that are not those of any buffer the epoch may have begun with");
  }
  since_ = std::max(since_, *of);  // later epochs have this one or a later one
}

void RehearsalCheck::end_epoch() {
  end_part();
  part_ = {};
  visits_.clear();
  draws_ = 0;
  first_step_ = true;
}

}  // namespace batchflow::test
