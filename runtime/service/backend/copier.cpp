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

void Copier::copy(CopyOrder order) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(order));
  changed_.notify_all();
}

void Copier::cancel(engine::Request request) {
  std::unique_lock lock(mutex_);
  std::erase_if(waiting_, [&](const CopyOrder& one) { return one.request == request; });
  changed_.wait(lock, [&] { return running_ != request; });
}

void Copier::run() {
  pthread_setname_np(pthread_self(), "bf-copy");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (ending_) return;
    const CopyOrder order = std::move(waiting_.front());
    waiting_.pop_front();
    running_ = order.request;
    lock.unlock();
    const bool filled = order.to.fill() && !BF_FAILPOINT("service.gather.memory");
    if (filled) {
      batch::copy_samples(*order.from_layout, order.from.memory(), order.first, order.last,
                          *order.to_layout, order.to.memory(), order.at, order.marks);
    }
    done_(order.request, filled ? engine::Outcome::done : engine::Outcome::failed);
    lock.lock();
    running_ = {RequestId::none(), 0};
    changed_.notify_all();
  }
}

}  // namespace batchflow::service
