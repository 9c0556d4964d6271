// A task that idle workers help with. Its owner and each helper take a few of its samples at a
// time. In the end the owner waits until the helpers are done with theirs.
//
// Thread-safe, except for what is the owner's.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "runtime/service/backend/block_maker.h"

namespace batchflow::service {

class SharedTask {
 public:
  // Both outlive it.
  SharedTask(const PreparationTask& task, const std::atomic<bool>& gives_up)
      : task_(task), gives_up_(gives_up) {}
  SharedTask(const SharedTask&) = delete;

  const PreparationTask& task() const { return task_; }
  const std::atomic<bool>& gives_up() const { return gives_up_; }

  // The next samples to make, [first, last); none: all are taken.
  struct Range {
    std::size_t first = 0;
    std::size_t last = 0;
    std::size_t count() const { return last - first; }
  };
  Range take();
  bool has_left() const { return next_.load(std::memory_order_relaxed) < task_.samples.size(); }
  // No sample is taken any more.
  void stop() { next_.store(task_.samples.size(), std::memory_order_relaxed); }

  // ---- the owner's. Whether help is worth it, after first samples that took so long each.
  bool is_long(Duration each);
  void set_at_once(std::size_t samples) { at_once_.store(samples, std::memory_order_relaxed); }
  void wait_for_helpers();
  // What helpers have made; after all have left. Throws std::bad_alloc if one ran out of memory.
  // False: the task fails.
  bool add_to(PreparationReport& report);

  // ---- a helper's.
  void join();
  // What came of its samples. `failed`: the task fails.
  void leave(PreparationReport&& part, bool failed);
  void leave_without_memory();

 private:
  void leave();

  const PreparationTask& task_;
  const std::atomic<bool>& gives_up_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::size_t> at_once_{BlockMaker::kAtOnce};
  std::mutex mutex_;
  std::condition_variable left_;
  std::uint32_t helpers_ = 0;
  bool helped_ = false;          // a helper has made a sample
  bool failed_ = false;          // the block cannot be made
  bool without_memory_ = false;  // a helper had none
  PreparationReport made_;       // by helpers
};

}  // namespace batchflow::service
