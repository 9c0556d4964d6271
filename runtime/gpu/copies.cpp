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

Copies::Copies(Device& device, Direction direction, CopySettings settings)
    : lane_(device.make_lane(direction)), queue_(settings) {
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
    added_.push_back(std::move(copy));
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
  while (take_added()) {
    bool has_changed = begin_next();
    has_changed |= confirm();
    report();
    if (!has_changed && queue_.has_in_flight()) std::this_thread::sleep_for(kBetweenLooks);
  }
}

bool Copies::take_added() {
  std::vector<Copy> added;
  std::string stopped;
  {
    std::unique_lock lock(mutex_);
    if (!queue_.has_in_flight() && !queue_.has_waiting())
      changed_.wait(lock, [this] { return !added_.empty() || ending_; });
    added.swap(added_);
    stopped = ending_ ? "the copies are being stopped" : lost_;
  }
  for (Copy& copy : added) queue_.add(std::move(copy));
  if (!stopped.empty()) queue_.fail_waiting(stopped);
  report();
  if (queue_.has_in_flight() || queue_.has_waiting()) return true;
  const std::lock_guard lock(mutex_);
  return !ending_ || !added_.empty();
}

// False: nothing can begin now.
bool Copies::begin_next() {
  const std::optional<Bundle> bundle = queue_.next();
  if (!bundle) return false;
  try {
    lane_->begin(bundle->pieces);
  } catch (const GpuError& error) {
    if (error.trouble() == Trouble::lost)
      lose(error.what());
    else
      queue_.refuse(error.what());
  }
  return true;
}

// False: nothing more has been confirmed.
bool Copies::confirm() {
  bool has_confirmed = false;
  while (queue_.has_in_flight()) {
    try {
      if (!lane_->oldest_is_over()) break;
    } catch (const GpuError& error) {
      lose(error.what());
      break;
    }
    queue_.confirm();
    has_confirmed = true;
  }
  return has_confirmed;
}

void Copies::report() {
  for (const CopyQueue::Finished& one : queue_.take_finished())
    if (one.copy.done) one.copy.done(one.problem);
}

// A device that is lost ends nothing any more, so nothing waits for it.
void Copies::lose(const std::string& problem) {
  {
    const std::lock_guard lock(mutex_);
    if (lost_.empty()) lost_ = problem;
  }
  queue_.fail_all(problem);
}

}  // namespace batchflow::gpu
