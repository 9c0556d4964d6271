#include "sim/world/read_queue.h"

#include <algorithm>
#include <utility>

namespace batchflow::world {

void ReadQueue::enter(std::uint64_t read, std::uint64_t operations, Begin begin) {
  if (depth_ == 0) return begin(0);
  waiting_.push_back({read, operations, std::move(begin)});
  begin_next();
}

void ReadQueue::begin_next() {
  while (free_ > 0 && !waiting_.empty()) {
    const Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    const auto ahead =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(next.operations, 1, free_));
    free_ -= ahead;
    under_way_[next.read] = ahead;
    next.begin(ahead);
  }
}

void ReadQueue::leave(std::uint64_t read) {
  if (depth_ == 0) return;
  const auto found = under_way_.find(read);
  if (found == under_way_.end()) {
    std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.read == read; });
    return;
  }
  free_ += found->second;
  under_way_.erase(found);
  begin_next();
}

}  // namespace batchflow::world
