// The threads that prepare blocks. The engine knows each as a worker.
//
// They run at a lower priority than everything that delivers: with all cores busy preparing, a
// batch that is ready still reaches its job within microseconds. A worker makes one block at a
// time, sample after sample, into the slot that it was given. If a block takes long, other workers
// help: those that have nothing to do, or have a block that came later. So blocks are ready in the
// order in which they were wanted, each as soon as all workers together can make it. The engine
// does not know of this help.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/engine/event.h"
#include "runtime/memory/scratch.h"
#include "runtime/prepare/pipeline.h"
#include "runtime/service/backend/block_maker.h"
#include "runtime/service/backend/item_store.h"
#include "runtime/service/backend/shared_task.h"

namespace batchflow::service {

class WorkerPool {
 public:
  using Report = std::function<void(PreparationReport)>;  // on a worker's thread
  using Quiet = std::function<void(WorkerId)>;

  // What is kept decoded is copied into memory of `items`. All outlive the pool.
  WorkerPool(ItemStore& items, const memory::ScratchLimits& scratch, Report report, Quiet quiet);
  ~WorkerPool();  // gives up what is being made, after the step of a sample that it is at

  // False: this process may have no more threads.
  [[nodiscard]] bool start(WorkerId worker);
  // The worker finishes what it is making, calls Quiet, and ends.
  void retire(WorkerId worker);
  void prepare(PreparationTask task);
  // The task is reported as failed, without a problem, unless it was at its end. That comes soon:
  // after the step of a sample that it is at.
  void cancel(engine::Request request);
  // Each ends its processes of steps that are given up, when it has made what it is making.
  void end_steps();
  // How long all workers together have been preparing.
  Duration busy() const { return Duration(busy_ns_.load(std::memory_order_relaxed)); }

 private:
  struct Worker {
    WorkerId id;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<PreparationTask> tasks;
    engine::Request current;            // is being made
    std::atomic<bool> gives_up{false};  // what it makes is wanted no more
    bool ending = false;                // the thread is to end
    bool ends_steps = false;            // it is to end its processes of steps
    std::uint64_t making = 0;           // the number of its task; 0: none
    bool is_called = false;             // something was offered
    std::atomic<bool> is_idle{false};   // it looks for something to do, or sleeps
    std::thread thread;
    std::uint64_t helps_before();
  };
  class Offer;
  void run(Worker& worker);
  // Calls carry_out(), and reports what it throws; then `preparer` is another.
  PreparationReport attempt(PreparationTask& task, std::unique_ptr<prepare::Preparer>& preparer,
                            Worker& worker);
  PreparationReport carry_out(PreparationTask& task, std::unique_ptr<prepare::Preparer>& preparer,
                              Worker& worker);
  void renew(std::unique_ptr<prepare::Preparer>& preparer);
  // Helps with what others have offered, if it came before what the worker has to do.
  void help(Worker& worker, std::unique_ptr<prepare::Preparer>& preparer);
  SharedTask* join_offered(std::uint64_t before);
  void note_offered();

  ItemStore& items_;
  const std::shared_ptr<memory::ScratchBudget> scratch_;
  Report report_;
  Quiet quiet_;
  std::vector<std::unique_ptr<Worker>> workers_;  // others look at them under offered_mutex_
  std::mutex offered_mutex_;
  std::vector<SharedTask*> offered_;
  std::atomic<std::uint64_t> oldest_offered_{UINT64_MAX};  // its number
  std::uint64_t numbers_ = 0;                              // of tasks, so far
  std::atomic<std::int64_t> busy_ns_{0};
};

}  // namespace batchflow::service
