#include "runtime/service/backend/unmapper.h"

#include <pthread.h>

#include <utility>

#include "runtime/service/backend/slot_memory.h"

namespace batchflow::service {

Unmapper::Unmapper() : thread_([this] { run(); }) {}

Unmapper::~Unmapper() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Unmapper::add(std::unique_ptr<SharedSlab> slab) {
  const std::lock_guard lock(mutex_);
  slabs_.push_back(std::move(slab));
  changed_.notify_all();
}

void Unmapper::run() {
  pthread_setname_np(pthread_self(), "bf-unmap");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !slabs_.empty(); });
    if (slabs_.empty()) return;
    auto slabs = std::exchange(slabs_, {});
    lock.unlock();
    slabs.clear();
    lock.lock();
  }
}

}  // namespace batchflow::service
