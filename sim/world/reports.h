// What the engine is to be told at the next step: facts in the order they came, then completions
// in the order of their requests. Lists that events refer to are kept until the step is over.
#pragma once

#include <algorithm>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "core/event.h"

namespace batchflow::sim {

class Reports {
 public:
  bool empty() const { return facts_.empty() && completions_.empty(); }

  void fact(const Event& event) { facts_.push_back(event); }
  void completion(RequestId id, const Event& event) { completions_.emplace_back(id, event); }
  std::span<const NodeId> keep(std::vector<NodeId> nodes) {
    node_lists_.push_back(std::move(nodes));
    return node_lists_.back();
  }

  // All of them, until the next call of `take`.
  std::span<const Event> take() {
    std::stable_sort(completions_.begin(), completions_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    taken_.swap(facts_);
    facts_.clear();
    for (const auto& [id, event] : completions_) taken_.push_back(event);
    completions_.clear();
    taken_lists_.swap(node_lists_);
    node_lists_.clear();
    return taken_;
  }

 private:
  std::vector<Event> facts_;
  std::vector<std::pair<RequestId, Event>> completions_;
  std::deque<std::vector<NodeId>> node_lists_;
  std::vector<Event> taken_;
  std::deque<std::vector<NodeId>> taken_lists_;
};

}  // namespace batchflow::sim
