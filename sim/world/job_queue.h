// Jobs that wait for GPUs, in the order in which the cluster's scheduler gives GPUs to them.
#pragma once

#include <cstdint>
#include <set>
#include <tuple>

#include "programs/input/scenario.h"
#include "sim/world/sim_time.h"

namespace batchflow::world {

class JobQueue {
 public:
  explicit JobQueue(input::Scheduler scheduler) : scheduler_(scheduler) {}

  bool empty() const { return waiting_.empty(); }
  // Whether a job that cannot have GPUs yet holds up the jobs behind it.
  bool is_strict() const { return scheduler_ == input::Scheduler::fifo; }

  // `work`: what each of its GPUs will compute. `attained`: the GPU time that it had so far, before
  // it was preempted.
  void add(std::uint32_t job, const input::JobModel& model, Duration work, TotalTime attained) {
    std::int64_t rank = 0;
    switch (scheduler_) {
      case input::Scheduler::fifo:
        break;
      case input::Scheduler::recorded:
        rank = model.not_before.time_since_epoch().count();
        break;
      case input::Scheduler::sjf:
        rank = work.count();
        break;
      case input::Scheduler::las:
        rank = has_had_much(attained) ? 1 : 0;
        break;
    }
    waiting_.insert({rank, ++serials_, job});
  }
  // Before all others.
  void add_first(std::uint32_t job) { waiting_.insert({INT64_MIN, --first_, job}); }
  // Calls `start` with each job in order, until it answers `stop`; a job that it took leaves the
  // queue.
  enum class Answer : std::uint8_t { took, waits, stop };
  template <class Start>
  void each(Start start) {
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      const Answer answer = start(std::get<2>(*it));
      if (answer == Answer::stop) return;
      it = answer == Answer::took ? waiting_.erase(it) : std::next(it);
    }
  }

  // Whether a job with so much GPU time leaves its GPUs to jobs that had less. There are two levels
  // of service, so that jobs of one level do not take turns for ever.
  static bool has_had_much(TotalTime attained) { return attained >= kMuch; }
  // How long a job with `gpus` GPUs takes to have had much; a nanosecond is added, so that it has
  // had it then.
  static Duration until_much(TotalTime attained, std::size_t gpus) {
    const auto left = static_cast<double>((TotalTime(kMuch) - attained).count());
    return Duration(static_cast<std::int64_t>(left / static_cast<double>(gpus)) + 1);
  }

 private:
  static constexpr Duration kMuch = std::chrono::hours(1);

  input::Scheduler scheduler_;
  // By rank in the discipline, then by order of coming.
  std::set<std::tuple<std::int64_t, std::int64_t, std::uint32_t>> waiting_;
  std::int64_t serials_ = 0;
  std::int64_t first_ = 0;
};

}  // namespace batchflow::world
