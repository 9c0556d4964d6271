#include "runtime/service/backend/worker_pool.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>
#include <utility>

#include "core/base/check.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/memory/out_of_memory.h"

namespace batchflow::service {
namespace {

constexpr int kNiceness = 10;
// So many samples tell how long one takes.
constexpr std::size_t kMeasured = 4;

}  // namespace

WorkerPool::WorkerPool(ItemStore& items, const memory::ScratchLimits& scratch, Report report,
                       Quiet quiet)
    : items_(items),
      scratch_(std::make_shared<memory::ScratchBudget>(scratch)),
      report_(std::move(report)),
      quiet_(std::move(quiet)) {}

WorkerPool::~WorkerPool() {
  for (const auto& worker : workers_) {
    const std::lock_guard lock(worker->mutex);
    worker->ending = true;
    worker->gives_up = true;
    worker->tasks.clear();
    worker->changed.notify_one();
  }
  for (const auto& worker : workers_) worker->thread.join();
}

bool WorkerPool::start(WorkerId id) {
  auto made = std::make_unique<Worker>();
  made->id = id;
  try {
    if (BF_FAILPOINT("service.worker.thread"))
      throw std::system_error(EAGAIN, std::generic_category());
    made->thread = std::thread([this, worker = made.get()] { run(*worker); });
  } catch (const std::system_error&) {
    return false;
  }
  const std::lock_guard lock(offered_mutex_);
  workers_.push_back(std::move(made));
  return true;
}

void WorkerPool::retire(WorkerId id) {
  for (const auto& worker : workers_) {
    if (worker->id != id) continue;
    const std::lock_guard lock(worker->mutex);
    worker->ending = true;
    worker->changed.notify_one();
  }
}

void WorkerPool::prepare(PreparationTask task) {
  const auto found = std::find_if(workers_.begin(), workers_.end(),
                                  [&](const auto& one) { return one->id == task.worker; });
  BF_CHECK(found != workers_.end());
  task.number = ++numbers_;
  const std::lock_guard lock((*found)->mutex);
  (*found)->tasks.push_back(std::move(task));
  (*found)->changed.notify_one();
}

void WorkerPool::cancel(engine::Request request) {
  for (const auto& worker : workers_) {
    const std::lock_guard lock(worker->mutex);
    if (worker->current == request) worker->gives_up = true;
    for (PreparationTask& task : worker->tasks) {
      if (task.request == request) task.is_given_up = true;
    }
  }
}

void WorkerPool::end_steps() {
  for (const auto& worker : workers_) {
    const std::lock_guard lock(worker->mutex);
    worker->ends_steps = true;
    worker->changed.notify_one();
  }
}

void WorkerPool::run(Worker& worker) {
  pthread_setname_np(pthread_self(), "bf-prepare");
  setpriority(PRIO_PROCESS, 0, kNiceness);  // of this thread alone, on Linux
  std::unique_ptr<prepare::Preparer> preparer = prepare::make_preparer(scratch_);
  for (;;) {
    worker.is_idle = true;  // before it looks for what is offered
    help(worker, preparer);
    PreparationTask task;
    {
      std::unique_lock lock(worker.mutex);
      worker.changed.wait(lock, [&] {
        return worker.ending || worker.ends_steps || worker.is_called || !worker.tasks.empty();
      });
      const bool called = std::exchange(worker.is_called, false);
      if (called && !worker.ending) continue;
      if (std::exchange(worker.ends_steps, false)) {
        lock.unlock();
        preparer->end_steps();
        continue;
      }
      if (worker.tasks.empty()) break;
      worker.is_idle = false;
      task = std::move(worker.tasks.front());
      worker.tasks.pop_front();
      worker.current = task.request;
      worker.making = task.number;
      worker.gives_up = task.is_given_up;
    }
    const auto began = std::chrono::steady_clock::now();
    PreparationReport report = attempt(task, preparer, worker);
    report.took = std::chrono::steady_clock::now() - began;
    busy_ns_.fetch_add(report.took.count(), std::memory_order_relaxed);
    task = {};  // what it holds of the cache may go
    {
      const std::lock_guard lock(worker.mutex);
      worker.making = 0;
    }
    report_(std::move(report));
  }
  quiet_(worker.id);
}

void WorkerPool::renew(std::unique_ptr<prepare::Preparer>& preparer) {
  preparer.reset();  // first, as it may hold what others wait for
  preparer = prepare::make_preparer(scratch_);
}

PreparationReport WorkerPool::attempt(PreparationTask& task,
                                      std::unique_ptr<prepare::Preparer>& preparer,
                                      Worker& worker) {
  PreparationReport report;
  const auto fails = [&] {
    report = {};
    report.request = task.request;
    report.worker = task.worker;
    report.outcome = engine::Outcome::failed;
    renew(preparer);
  };
  try {
    const memory::MayRunOutOfMemory scope;
    if (BF_FAILPOINT("service.prepare.new")) throw std::bad_alloc();
    return carry_out(task, preparer, worker);
  } catch (const std::bad_alloc&) {
    fails();
    report.unbegun = std::move(task);
  } catch (const std::exception& error) {
    fails();
    report.problems = {error.what()};
  }
  return report;
}

// Offers a task to other workers. Once this is gone it is offered no more, and no helper has
// anything of it.
class WorkerPool::Offer {
 public:
  Offer(WorkerPool& pool, SharedTask& task) : pool_(pool), task_(task) {}
  ~Offer() {
    if (!made_) return;
    task_.stop();
    {
      const std::lock_guard lock(pool_.offered_mutex_);
      std::erase(pool_.offered_, &task_);
      pool_.note_offered();
    }
    task_.wait_for_helpers();
  }
  Offer(const Offer&) = delete;

  void make() {
    const std::lock_guard lock(pool_.offered_mutex_);
    pool_.offered_.push_back(&task_);
    pool_.note_offered();
    made_ = true;
    for (const auto& worker : pool_.workers_) {
      if (!worker->is_idle) continue;
      const std::lock_guard worker_lock(worker->mutex);
      worker->is_called = true;
      worker->changed.notify_one();
    }
  }

 private:
  WorkerPool& pool_;
  SharedTask& task_;
  bool made_ = false;
};

// Offers a long task to the other workers, unless it has steps that are processes: these are not
// begun just for helping.
PreparationReport WorkerPool::carry_out(PreparationTask& task,
                                        std::unique_ptr<prepare::Preparer>& preparer,
                                        Worker& worker) {
  const std::atomic<bool>& gives_up = worker.gives_up;
  PreparationReport report;
  report.request = task.request;
  report.worker = task.worker;
  const auto fails = [&report] {
    report.outcome = engine::Outcome::failed;
    report.corrupt.clear();
    report.decoded.clear();
    return std::move(report);
  };
  if (gives_up) return fails();
  if (!task.slot.fill() || BF_FAILPOINT("service.prepare.memory")) {
    report.outcome = engine::Outcome::failed;
    report.unbegun = std::move(task);
    return report;
  }
  task.add_kept_samples();
  const bool may_share = !BlockMaker::has_ragged_field(task) && task.pipeline->plugins().empty();
  BlockMaker maker(items_, task, preparer, gives_up);
  SharedTask shared(task, gives_up);
  if (may_share) shared.set_at_once(kMeasured);
  bool done = true;
  {
    Offer offer(*this, shared);
    try {
      const auto began = std::chrono::steady_clock::now();
      for (auto range = shared.take(); done && range.count() > 0; range = shared.take()) {
        done = maker.make(range.first, range.last, report);
        if (may_share && range.first == 0 &&
            shared.is_long((std::chrono::steady_clock::now() - began) / range.count()))
          offer.make();
        if (oldest_offered_ < task.number) help(worker, preparer);
      }
      preparer->end_sample();  // helpers may wait for what it holds
    } catch (...) {
      renew(preparer);
      throw;
    }
  }
  done = done && shared.add_to(report);
  if (gives_up) report.problems.clear();
  if (gives_up || !done) return fails();
  maker.end();
  return report;
}

// --------------------------------------------------------------------------------- helping ----

// It helps with tasks of lower numbers.
std::uint64_t WorkerPool::Worker::helps_before() {
  const std::lock_guard lock(mutex);
  if (ending) return 0;
  if (making > 0) return gives_up ? 0 : making;
  if (ends_steps) return 0;
  return tasks.empty() ? UINT64_MAX : tasks.front().number;
}

// REQUIRES: offered_mutex_ is held
void WorkerPool::note_offered() {
  std::uint64_t oldest = UINT64_MAX;
  for (const SharedTask* one : offered_) oldest = std::min(oldest, one->task().number);
  oldest_offered_ = oldest;
}

// Of the tasks that others have offered, and of which something is left, the one that came first.
SharedTask* WorkerPool::join_offered(std::uint64_t before) {
  if (oldest_offered_ >= before) return nullptr;  // as nearly always: without the lock of all
  const std::lock_guard lock(offered_mutex_);
  SharedTask* first = nullptr;
  for (SharedTask* const one : offered_) {
    if (!one->has_left() || one->task().number >= before) continue;
    if (!first || one->task().number < first->task().number) first = one;
  }
  if (first) first->join();
  return first;
}

void WorkerPool::help(Worker& worker, std::unique_ptr<prepare::Preparer>& preparer) {
  while (SharedTask* const shared = join_offered(worker.helps_before())) {
    const auto began = std::chrono::steady_clock::now();
    PreparationReport part;
    bool done = true;
    try {
      const memory::MayRunOutOfMemory scope;
      if (BF_FAILPOINT("service.help.new")) throw std::bad_alloc();
      BlockMaker maker(items_, shared->task(), preparer, shared->gives_up());
      while (done && shared->task().number < worker.helps_before()) {
        const auto range = shared->take();
        if (range.count() == 0) break;
        done = maker.make(range.first, range.last, part);
      }
      preparer->end_sample();
    } catch (const std::bad_alloc&) {
      renew(preparer);
      shared->leave_without_memory();
      continue;
    } catch (const std::exception& error) {
      renew(preparer);
      part.problems = {error.what()};
      done = false;
    }
    shared->leave(std::move(part), !done);
    if (worker.making > 0) continue;  // the time counts for that task
    busy_ns_.fetch_add((std::chrono::steady_clock::now() - began).count(),
                       std::memory_order_relaxed);
  }
}

}  // namespace batchflow::service
