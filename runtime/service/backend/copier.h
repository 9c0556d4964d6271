// Gathers batches that cross blocks: copies slices from slot to slot, on a thread of its own, in
// the order in which they were asked for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "core/engine/event.h"
#include "runtime/batch/batch_spec.h"
#include "runtime/service/backend/slot_memory.h"

namespace batchflow::service {

struct CopyTask {
  engine::Request request;
  const std::byte* from = nullptr;
  std::shared_ptr<const void> holds;  // the memory of `from`
  std::shared_ptr<const batch::BlockLayout> from_layout;
  Slot to;
  std::shared_ptr<const batch::BlockLayout> to_layout;
  std::uint32_t first = 0;  // samples [first, last) of `from`
  std::uint32_t last = 0;
  std::uint32_t at = 0;  // where in `to`: an index
  std::uint8_t marks = 0;
};

class Copier {
 public:
  using Done = std::function<void(engine::Request, engine::Outcome)>;  // on the copier's thread

  explicit Copier(Done done);
  ~Copier();
  void copy(CopyTask task);
  // Afterwards the copy neither waits nor runs.
  void cancel(engine::Request request);

 private:
  void run();

  Done done_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<CopyTask> waiting_;
  engine::Request running_{RequestId::none(), 0};
  bool ending_ = false;  // the thread is to end
  std::thread thread_;
};

}  // namespace batchflow::service
