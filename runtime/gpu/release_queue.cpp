#include "runtime/gpu/release_queue.h"

#include <pthread.h>

#include <chrono>
#include <utility>

namespace batchflow::gpu {
namespace {

constexpr std::chrono::microseconds kBetweenLooks{100};

std::unique_ptr<Fence> try_fence(Device& device, std::span<void* const> streams) {
  try {
    return device.make_fence(streams);
  } catch (const GpuError&) {
    return nullptr;
  }
}

}  // namespace

ReleaseQueue::ReleaseQueue(Device& device) : device_(device), thread_([this] { run(); }) {}

ReleaseQueue::~ReleaseQueue() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ReleaseQueue::add(std::vector<void*> streams, std::function<void()> released) {
  auto fence = try_fence(device_, streams);
  Release release{std::move(streams), std::move(fence), std::move(released)};
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(release));
  }
  changed_.notify_one();
}

std::size_t ReleaseQueue::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size() + looked_at_;
}

void ReleaseQueue::run() {
  pthread_setname_np(pthread_self(), "bf-gpu-release");
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (waiting_.empty()) {
      changed_.wait(lock);
      continue;
    }
    std::deque<Release> all = std::exchange(waiting_, {});
    looked_at_ = all.size();
    lock.unlock();
    std::deque<Release> left;
    for (Release& release : all) {
      if (is_passed(release))
        release.released();
      else
        left.push_back(std::move(release));
    }
    if (!left.empty()) std::this_thread::sleep_for(kBetweenLooks);
    lock.lock();
    looked_at_ = 0;
    waiting_.insert(waiting_.begin(), std::make_move_iterator(left.begin()),
                    std::make_move_iterator(left.end()));
  }
}

// A fence that is made later is behind at least as much.
bool ReleaseQueue::is_passed(Release& release) const {
  try {
    if (!release.fence) release.fence = device_.make_fence(release.streams);
    return release.fence->is_passed();
  } catch (const GpuError&) {
    return false;
  }
}

}  // namespace batchflow::gpu
