// What has happened since the engine's last step. Events refer to lists; these live here until they
// have been stepped.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/event.h"
#include "core/position.h"

namespace batchflow {

class Inbox {
 public:
  void add(Event event) { events_.push_back(event); }
  // The same list, in memory that stays until clear().
  template <class T>
  std::span<const T> keep(std::vector<T> list) {
    return std::get<std::deque<std::vector<T>>>(lists_).emplace_back(std::move(list));
  }
  const Position* keep(Position position) { return &positions_.emplace_back(std::move(position)); }
  std::string_view keep(std::string text) { return texts_.emplace_back(std::move(text)); }

  bool empty() const { return events_.empty(); }
  std::span<const Event> events() const { return events_; }
  void clear() {
    events_.clear();
    std::apply([](auto&... list) { (list.clear(), ...); }, lists_);
    positions_.clear();
    texts_.clear();
  }
  void swap(Inbox& other) {
    events_.swap(other.events_);
    lists_.swap(other.lists_);
    positions_.swap(other.positions_);
    texts_.swap(other.texts_);
  }

 private:
  std::vector<Event> events_;
  std::tuple<std::deque<std::vector<SampleId>>, std::deque<std::vector<NodeId>>,
             std::deque<std::vector<Score>>>
      lists_;
  std::deque<Position> positions_;
  std::deque<std::string> texts_;
};

}  // namespace batchflow
