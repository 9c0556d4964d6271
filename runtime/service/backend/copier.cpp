#include "runtime/service/backend/copier.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "runtime/failpoint/failpoint.h"

namespace batchflow::service {

Copier::Copier(Done done) : done_(std::move(done)), thread_([this] { run(); }) {}

Copier::~Copier() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    waiting_.clear();
    changed_.notify_all();
  }
  thread_.join();
}

void Copier::copy(CopyTask task) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(task));
  changed_.notify_all();
}

void Copier::cancel(engine::Request request) {
  std::unique_lock lock(mutex_);
  std::erase_if(waiting_, [&](const CopyTask& one) { return one.request == request; });
  changed_.wait(lock, [&] { return running_ != request; });
}

void Copier::run() {
  pthread_setname_np(pthread_self(), "bf-copy");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (ending_) return;
    const CopyTask task = std::move(waiting_.front());
    waiting_.pop_front();
    running_ = task.request;
    lock.unlock();
    const bool filled = task.to.fill() && !BF_FAILPOINT("service.gather.memory");
    if (filled) {
      batch::copy_samples(*task.from_layout, task.from, task.first, task.last, *task.to_layout,
                          task.to.memory(), task.at, task.marks);
    }
    done_(task.request, filled ? engine::Outcome::done : engine::Outcome::failed);
    lock.lock();
    running_ = {RequestId::none(), 0};
    changed_.notify_all();
  }
}

}  // namespace batchflow::service
