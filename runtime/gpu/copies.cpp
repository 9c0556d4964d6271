#include "runtime/gpu/copies.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <chrono>
#include <future>
#include <optional>
#include <utility>

namespace batchflow::gpu {
namespace {

constexpr std::chrono::microseconds kBetweenLooks{15};

}  // namespace

Copies::Copies(Device& device, Direction direction, CopySettings settings) : queue_(settings) {
  for (auto& lane : lanes_) lane = device.make_lane(direction);
  thread_ = std::thread([this] { run(); });
}

Copies::~Copies() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Copies::add(Copy copy) {
  {
    const std::lock_guard lock(mutex_);
    queue_.add(std::move(copy));
    if (!lost_.empty()) queue_.fail_waiting(lost_);
  }
  changed_.notify_one();
}

void Copies::copy(std::vector<Piece> pieces, Urgency urgency) {
  std::promise<std::string> problem;
  add({std::move(pieces), urgency, nullptr,
       [&](const std::string& why) { problem.set_value(why); }});
  const std::string why = problem.get_future().get();
  if (why.empty()) return;
  const std::lock_guard lock(mutex_);
  throw GpuError(lost_.empty() ? Trouble::refused : Trouble::lost, why);
}

void Copies::run() {
  pthread_setname_np(pthread_self(), "bf-gpu-copy");
  prctl(PR_SET_TIMERSLACK, 1UL);  // nanoseconds: otherwise each sleep takes 50 us longer
  std::unique_lock lock(mutex_);
  while (true) {
    if (ending_) queue_.fail_waiting("the copies are being stopped");
    bool has_changed = begin_next(lock);
    has_changed |= confirm(lock);
    report(lock);
    if (has_changed) continue;
    if (queue_.has_in_flight()) {
      lock.unlock();
      std::this_thread::sleep_for(kBetweenLooks);
      lock.lock();
    } else if (queue_.has_waiting()) {
      continue;
    } else if (ending_) {
      return;
    } else {
      changed_.wait(lock);
    }
  }
}

// False: nothing can begin now.
bool Copies::begin_next(std::unique_lock<std::mutex>& lock) {
  std::optional<Bundle> bundle = queue_.next();
  if (!bundle) return false;
  lock.unlock();
  std::optional<GpuError> problem;
  try {
    lanes_[static_cast<std::size_t>(bundle->urgency)]->begin(bundle->pieces);
  } catch (const GpuError& error) {
    problem = error;
  }
  lock.lock();
  if (problem && problem->trouble() == Trouble::lost)
    lose(problem->what());
  else if (problem)
    queue_.refuse(bundle->urgency, problem->what());
  return true;
}

// False: nothing more has been confirmed.
bool Copies::confirm(std::unique_lock<std::mutex>& lock) {
  bool has_confirmed = false;
  for (std::size_t i = 0; i < kUrgencies; ++i) {
    const auto urgency = static_cast<Urgency>(i);
    while (queue_.is_in_flight(urgency)) {
      bool is_over = false;
      std::string problem;
      lock.unlock();
      try {
        is_over = lanes_[i]->oldest_is_over();
      } catch (const GpuError& error) {
        problem = error.what();
      }
      lock.lock();
      if (!problem.empty()) lose(problem);
      if (!is_over) break;
      queue_.confirm(urgency);
      has_confirmed = true;
    }
  }
  return has_confirmed;
}

void Copies::report(std::unique_lock<std::mutex>& lock) {
  std::vector<CopyQueue::Finished> finished = queue_.take_finished();
  if (finished.empty()) return;
  lock.unlock();
  for (const CopyQueue::Finished& one : finished)
    if (one.copy.done) one.copy.done(one.problem);
  finished.clear();  // the keepers
  lock.lock();
}

// A device that is lost ends nothing any more, so nothing waits for it.
void Copies::lose(const std::string& problem) {
  if (lost_.empty()) lost_ = problem;
  queue_.fail_all(lost_);
}

}  // namespace batchflow::gpu
