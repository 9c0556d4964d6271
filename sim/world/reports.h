// The events of the engine's next step: facts in the order in which they came, then completions in
// the order of their requests, then the workers and nodes that have gone when all else was done.
// Lists that events refer to are kept until the step is over.
#pragma once

#include <algorithm>
#include <deque>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "core/engine/event.h"
#include "core/order/position.h"

namespace batchflow::world {

class Reports {
 public:
  bool empty() const { return facts_.empty() && completions_.empty() && gone_.empty(); }

  void fact(const engine::Event& event) { facts_.push_back(event); }
  void completion(RequestId id, const engine::Event& event) {
    completions_.emplace_back(id, event);
  }
  // The worker is gone, after it has done what it was doing.
  void gone(WorkerId worker) { gone_.push_back(worker); }
  template <class Id>  // NodeId, SampleId, Score, Position, a part of a mixture or a loss
  std::span<const Id> keep(std::vector<Id> ids) {
    auto& lists = std::get<Lists<Id>>(lists_);
    lists.push_back(std::move(ids));
    return lists.back();
  }

  // All events, until the next call of `take`.
  std::span<const engine::Event> take() {
    const auto before = [](const auto& a, const auto& b) { return a.first < b.first; };
    if (!std::is_sorted(completions_.begin(), completions_.end(), before)) {
      std::stable_sort(completions_.begin(), completions_.end(), before);
    }
    taken_.swap(facts_);
    facts_.clear();
    for (const auto& [id, event] : completions_) taken_.push_back(event);
    completions_.clear();
    for (const WorkerId worker : gone_) taken_.push_back(engine::WorkerQuiesced{worker});
    gone_.clear();
    taken_lists_.swap(lists_);
    std::apply([](auto&... lists) { (lists.clear(), ...); }, lists_);
    return taken_;
  }

 private:
  template <class Id>
  using Lists = std::deque<std::vector<Id>>;

  std::vector<engine::Event> facts_;
  std::vector<std::pair<RequestId, engine::Event>> completions_;
  std::vector<WorkerId> gone_;
  using AllLists = std::tuple<Lists<NodeId>, Lists<SampleId>, Lists<engine::Score>,
                              Lists<order::Position>, Lists<std::uint64_t>, Lists<float>>;
  AllLists lists_;
  std::vector<engine::Event> taken_;
  AllLists taken_lists_;
};

}  // namespace batchflow::world
