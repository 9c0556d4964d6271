#include "runtime/service/backend/shared_task.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <numeric>
#include <utility>
#include <vector>

namespace batchflow::service {
namespace {

// What is left of a task must take this long, so that waking others costs little beside it.
constexpr Duration kWorthHelp = std::chrono::milliseconds(2);
// A helper looks for a task of its own this often.
constexpr Duration kAtOnce = std::chrono::milliseconds(1);

template <class T>
void append(std::vector<T>& to, std::vector<T>& from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

template <class T>
void put_in_order(std::vector<T>& all, const std::vector<std::size_t>& order) {
  std::vector<T> sorted;
  for (const std::size_t at : order) sorted.push_back(std::move(all[at]));
  all = std::move(sorted);
}

void add(PreparationReport& to, PreparationReport& from) {
  to.samples += from.samples;
  if (from.outcome == engine::Outcome::corrupt) to.outcome = from.outcome;
  append(to.corrupt, from.corrupt);
  append(to.problems, from.problems);
  append(to.decoded, from.decoded);
}

}  // namespace

SharedTask::Range SharedTask::take() {
  const std::size_t count = at_once_.load(std::memory_order_relaxed);
  const std::size_t all = task_.samples.size();
  const std::size_t first = std::min(all, next_.fetch_add(count, std::memory_order_relaxed));
  return {first, std::min(all, first + count)};
}

bool SharedTask::is_long(Duration each) {
  const auto left = static_cast<std::int64_t>(task_.samples.size() -
                                              std::min(task_.samples.size(), next_.load()));
  const bool is = each * left > kWorthHelp;
  const auto at_once =
      is ? kAtOnce / std::max(each, Duration(1)) : std::int64_t{BlockMaker::kAtOnce};
  set_at_once(static_cast<std::size_t>(std::clamp<std::int64_t>(at_once, 1, BlockMaker::kAtOnce)));
  return is;
}

void SharedTask::join() {
  const std::lock_guard lock(mutex_);
  ++helpers_;
  helped_ = true;
}

void SharedTask::leave(PreparationReport&& part, bool failed) {
  const std::lock_guard lock(mutex_);
  if (failed) {
    stop();
    failed_ = true;
    if (!part.problems.empty()) made_.problems = {part.problems.back()};
  } else if (!failed_) {
    add(made_, part);
  }
  leave();
}

void SharedTask::leave_without_memory() {
  const std::lock_guard lock(mutex_);
  stop();
  without_memory_ = true;
  leave();
}

// The owner may be gone as soon as the lock is.
void SharedTask::leave() {
  --helpers_;
  left_.notify_all();
}

void SharedTask::wait_for_helpers() {
  std::unique_lock lock(mutex_);
  left_.wait(lock, [this] { return helpers_ == 0; });
}

bool SharedTask::add_to(PreparationReport& report) {
  if (without_memory_) throw std::bad_alloc();
  if (!helped_) return true;
  if (failed_) {
    report.problems = std::move(made_.problems);
    return false;
  }
  add(report, made_);
  // In an order that does not depend on which worker made which sample.
  std::vector<std::size_t> order(report.corrupt.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return report.corrupt[a].value < report.corrupt[b].value;
  });
  put_in_order(report.corrupt, order);
  put_in_order(report.problems, order);
  return true;
}

}  // namespace batchflow::service
