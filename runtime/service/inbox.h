// What has happened since the engine's last step. The lists that events refer to live here until
// the engine has taken them.
#pragma once

#include <algorithm>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/engine/event.h"
#include "core/order/position.h"

namespace batchflow::service {

class Inbox {
 public:
  void add(engine::Event event) { events_.push_back(event); }
  // Until the engine has taken this event, it may still send commands for the job.
  void add_left(JobId job, DatasetId dataset, PipelineId pipeline) {
    events_.push_back(engine::JobLeft{job});
    left_.push_back({dataset, pipeline});
  }
  bool is_left(DatasetId dataset) const {
    return std::any_of(left_.begin(), left_.end(),
                       [dataset](const auto& one) { return one.first == dataset; });
  }
  bool is_left(PipelineId pipeline) const {
    return std::any_of(left_.begin(), left_.end(),
                       [pipeline](const auto& one) { return one.second == pipeline; });
  }
  // A copy of the list, in memory that stays until clear().
  template <class T>
  std::span<const T> keep(std::vector<T> list) {
    return std::get<std::deque<std::vector<T>>>(lists_).emplace_back(std::move(list));
  }
  const order::Position* keep(order::Position position) {
    return &positions_.emplace_back(std::move(position));
  }
  std::string_view keep(std::string text) { return texts_.emplace_back(std::move(text)); }

  bool empty() const { return events_.empty(); }
  std::span<const engine::Event> events() const { return events_; }
  void clear() {
    events_.clear();
    left_.clear();
    std::apply([](auto&... list) { (list.clear(), ...); }, lists_);
    positions_.clear();
    texts_.clear();
  }
  void swap(Inbox& other) {
    events_.swap(other.events_);
    left_.swap(other.left_);
    lists_.swap(other.lists_);
    positions_.swap(other.positions_);
    texts_.swap(other.texts_);
  }

 private:
  std::vector<engine::Event> events_;
  std::vector<std::pair<DatasetId, PipelineId>> left_;  // of the jobs that have left
  std::tuple<std::deque<std::vector<SampleId>>, std::deque<std::vector<NodeId>>,
             std::deque<std::vector<std::uint64_t>>, std::deque<std::vector<engine::Score>>,
             std::deque<std::vector<std::uint32_t>>, std::deque<std::vector<float>>,
             std::deque<std::vector<engine::Exemplar>>>
      lists_;
  std::deque<order::Position> positions_;
  std::deque<std::string> texts_;
};

}  // namespace batchflow::service
