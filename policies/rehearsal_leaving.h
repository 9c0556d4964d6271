// Exemplars of a buffer in the order in which they leave it.
#pragma once

#include <cstddef>
#include <set>
#include <utility>
#include <vector>

namespace batchflow::policies {

// The exemplar with the greatest rank leaves first.
template <class Rank>
class Leaving {
 public:
  // REQUIRES: index <= size()
  void put(std::size_t index, const Rank& rank) {
    if (index == ranks_.size()) {
      ranks_.push_back(rank);
    } else {
      order_.erase({ranks_[index], index});
      ranks_[index] = rank;
    }
    order_.insert({rank, index});
  }
  std::size_t size() const { return ranks_.size(); }
  // REQUIRES: size() > 0
  std::size_t first() const { return order_.rbegin()->second; }
  const Rank& first_rank() const { return order_.rbegin()->first; }

 private:
  std::vector<Rank> ranks_;
  std::set<std::pair<Rank, std::size_t>> order_;
};

}  // namespace batchflow::policies
