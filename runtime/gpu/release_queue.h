// In a job's process: slots that the script no longer holds, while its device may still read them.
//
// A training step is given to the device and ends later. So when the last tensor of a slot is gone,
// a fence is set behind everything that was given to the device; once the device has passed it the
// slot is released.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/gpu/device.h"

namespace batchflow::gpu {

class ReleaseQueue {
 public:
  explicit ReleaseQueue(Device& device);
  // What the device has not passed by then is not released: the service waits for the end of this
  // process.
  ~ReleaseQueue();
  ReleaseQueue(const ReleaseQueue&) = delete;
  ReleaseQueue& operator=(const ReleaseQueue&) = delete;

  // Work on these streams reads what is released, as far as is known. The queue's thread calls
  // `released`, but never when the device is lost.
  void add(std::vector<void*> streams, std::function<void()> released);
  std::size_t waiting() const;

 private:
  struct Release {
    std::vector<void*> streams;
    std::unique_ptr<Fence> fence;  // null: none could be made yet, as while a graph is captured
    std::function<void()> released;
  };
  void run();
  // Whether it may be released.
  bool is_passed(Release& release) const;

  Device& device_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Release> waiting_;
  std::size_t looked_at_ = 0;  // by the thread, which has taken them from those that wait
  bool ending_ = false;        // the thread is to end
  std::thread thread_;
};

}  // namespace batchflow::gpu
