#include "runtime/toys/toy_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/toys/epoch_check.h"

namespace batchflow::toys {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Ends early if `stop` answers true, which it is asked now and then.
void sleep_until(Clock::time_point until, const std::function<bool()>& stop) {
  constexpr auto kLookEvery = std::chrono::milliseconds(50);
  while (!stop() && Clock::now() < until)
    std::this_thread::sleep_until(std::min(until, Clock::now() + kLookEvery));
}

// The times of one rank.
struct RankTimes {
  Clock::duration compute{0}, stall{0}, idle{0}, first_compute{0};
  std::optional<Clock::time_point> first_batch, first_step;
};

class Job {
 public:
  Job(const ToyJob& plan, ToyOutcome& outcome, Clock::time_point zero,
      const std::function<bool()>& stop)
      : plan_(plan), out_(outcome), zero_(zero), stop_(stop), step_end_(plan.ranks) {}

  void run() {
    const Clock::time_point start = Clock::now();
    sleep_until(start + plan_.start_up, stop_);
    std::vector<RankTimes> times(plan_.ranks);
    std::vector<std::thread> others;
    for (std::uint32_t rank = 1; rank < plan_.ranks; ++rank)
      others.emplace_back([this, rank, start, &times] { train(rank, start, times[rank]); });
    train(0, start, times[0]);
    for (std::thread& other : others) other.join();
    sum_up(start, times);
  }
  // Ends the job's waits for batches. Another thread calls it.
  void interrupt() {
    const std::lock_guard lock(mutex_);
    for (bf_loader* loader : loaders_) bf_loader_interrupt(loader);
  }

 private:
  // It ends within the bounds of the client library, and soon after `stop`.
  void train(std::uint32_t rank, Clock::time_point start, RankTimes& times) {
    bf_loader* loader = open(rank);
    while (loader && !stop_() && !left(start)) {
      bf_batch batch = BF_BATCH_INIT;
      const Clock::time_point asked = Clock::now();
      const bf_status status = bf_loader_next(loader, &batch);
      const Clock::time_point came = Clock::now();
      times.stall += came - asked;
      if (status != BF_OK) {
        if (status == BF_END) done(rank);
        if (status != BF_END && status != BF_INTERRUPTED) fail(bf_last_error());
        break;
      }
      if (!times.first_batch) times.first_batch = came;
      note(batch);
      sleep_until(came + plan_.compute, stop_);
      bf_batch_release(loader, batch.handle);
      const Clock::time_point computed = Clock::now();
      times.compute += computed - came;
      step_end_.arrive_and_wait();
      times.idle += Clock::now() - computed;
      if (!times.first_step) {
        times.first_step = Clock::now();
        times.first_compute = times.compute;
      }
    }
    step_end_.arrive_and_drop();
    if (!loader) return;
    {
      const std::lock_guard lock(mutex_);
      std::erase(loaders_, loader);
    }
    bf_loader_close(loader);
  }

  bf_loader* open(std::uint32_t rank) {
    bf_loader_options options = BF_LOADER_OPTIONS_INIT;
    options.service = plan_.service.empty() ? nullptr : plan_.service.c_str();
    options.dataset = plan_.dataset.c_str();
    options.pipeline = plan_.pipeline.empty() ? nullptr : plan_.pipeline.c_str();
    options.job = plan_.name.empty() ? nullptr : plan_.name.c_str();
    options.batch_samples = plan_.batch;
    options.rank = rank;
    options.world_size = plan_.ranks;
    options.order = plan_.order;
    options.has_shuffle_seed = plan_.has_shuffle_seed ? 1 : 0;
    options.shuffle_seed = plan_.shuffle_seed;
    options.node_local = plan_.node_local ? 1 : 0;
    options.runs = plan_.runs ? 1 : 0;
    options.rehearsed = plan_.rehearsed;
    options.exemplars = plan_.exemplars.data();
    options.exemplars_count = plan_.exemplars.size();
    options.buffer_exemplars = plan_.buffer_exemplars;
    if (plan_.buffer_exemplars > 0) options.buffer_policy = plan_.buffer_policy.c_str();
    options.drop_last = plan_.drop_last ? 1 : 0;
    options.epochs = plan_.epochs;
    options.steps = plan_.steps;
    options.credits = plan_.credits;
    options.weight = plan_.weight;
    options.latency_target_s = plan_.latency_target_s;
    bf_loader* loader = nullptr;
    const bf_status status = bf_loader_open(&options, &loader);
    if (status != BF_OK) {
      const std::lock_guard lock(mutex_);
      if (out_.result.refusal.empty()) out_.result.refusal = bf_last_error();
      out_.result.state = "refused";
      return nullptr;
    }
    bf_loader_info info = BF_LOADER_INFO_INIT;
    bf_loader_info_get(loader, &info);
    const std::lock_guard lock(mutex_);
    loaders_.push_back(loader);
    // A weighted order is drawn with replacement: it does not promise each sample once.
    if (!check_ && plan_.order != BF_WEIGHTED)
      check_.emplace(info.dataset_samples, plan_.ranks, !plan_.drop_last);
    return loader;
  }

  bool left(Clock::time_point start) const {
    return plan_.leaves_after.count() > 0 && Clock::now() >= start + plan_.leaves_after;
  }

  void note(const bf_batch& batch) {
    const std::string wrong = check_ ? check_->add(batch) : "";
    const std::lock_guard lock(mutex_);
    if (out_.wrong.empty()) out_.wrong = wrong;
    ++out_.result.batches;
    out_.result.samples += batch.samples - batch.fillers - batch.rehearsed;
    out_.result.fillers += batch.fillers;
    out_.result.rehearsed += batch.rehearsed;
    out_.repeats += batch.repeats;
    out_.copied += batch.copied != 0 ? 1 : 0;
    if (batch.last_of_epoch != 0)
      out_.result.epochs = std::max<std::uint64_t>(out_.result.epochs, batch.epoch + 1);
  }

  void done(std::uint32_t rank) {
    const std::lock_guard lock(mutex_);
    if (rank == 0) out_.result.state = "done";
  }
  void fail(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (out_.wrong.empty()) out_.wrong = why;
  }

  // Takes the means over the ranks, as for simulated jobs.
  void sum_up(Clock::time_point start, const std::vector<RankTimes>& times) {
    output::JobResult& result = out_.result;
    const Clock::time_point end = Clock::now();
    result.name = plan_.name;
    result.dataset = plan_.dataset;
    result.ranks = plan_.ranks;
    result.arrived_s = seconds(plan_.arrives);
    result.started_s = seconds(start - zero_);
    result.ended_s = seconds(end - zero_);
    result.time_s = seconds(end - start);
    if (result.state == "unfinished" && left(start)) result.state = "left";
    RankTimes sum;
    for (const RankTimes& one : times) {
      sum.compute += one.compute;
      sum.stall += one.stall;
      sum.idle += one.idle;
      sum.first_compute += one.first_compute;
    }
    result.compute_s = seconds(sum.compute) / plan_.ranks;
    result.stall_s = seconds(sum.stall) / plan_.ranks;
    result.idle_s = seconds(sum.idle) / plan_.ranks;
    if (times[0].first_batch) result.first_batch_s = seconds(*times[0].first_batch - start);
    if (times[0].first_step) result.first_step_s = seconds(*times[0].first_step - start);
    if (result.time_s > 0)
      result.samples_per_s = static_cast<double>(result.samples) / result.time_s;
    const double after_first_s = result.time_s - result.first_step_s;
    if (times[0].first_step && after_first_s > 0)
      result.au = (result.compute_s - seconds(sum.first_compute) / plan_.ranks) / after_first_s;
  }

  const ToyJob& plan_;
  ToyOutcome& out_;
  const Clock::time_point zero_;
  const std::function<bool()>& stop_;
  std::barrier<> step_end_;  // the ranks of a job wait for each other at the end of each step
  std::mutex mutex_;
  std::optional<EpochCheck> check_;
  std::vector<bf_loader*> loaders_;  // those that are open
};

}  // namespace

std::vector<ToyOutcome> run_toys(std::span<const ToyJob> jobs, std::uint32_t gpus,
                                 const std::function<bool()>& stop) {
  const Clock::time_point zero = Clock::now();
  std::vector<ToyOutcome> outcomes(jobs.size());
  std::vector<std::unique_ptr<Job>> all;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    all.push_back(std::make_unique<Job>(jobs[i], outcomes[i], zero, stop));
  std::mutex mutex;
  std::condition_variable ended;
  std::uint32_t free = gpus;
  // Waits until there is a free GPU for each of `ranks`, or `stop` answers true.
  const auto wait_for = [&](std::unique_lock<std::mutex>& lock, std::uint32_t ranks) {
    while (!stop() && free < ranks) ended.wait_for(lock, std::chrono::milliseconds(50));
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < jobs.size() && !stop(); ++i) {
    sleep_until(zero + jobs[i].arrives, stop);
    std::unique_lock lock(mutex);
    wait_for(lock, jobs[i].ranks);
    if (stop()) break;
    free -= jobs[i].ranks;
    threads.emplace_back([&, i] {
      all[i]->run();
      const std::lock_guard freeing(mutex);
      free += jobs[i].ranks;
      ended.notify_one();
    });
  }
  {
    std::unique_lock lock(mutex);
    wait_for(lock, gpus);
  }
  if (stop()) {
    for (const std::unique_ptr<Job>& job : all) job->interrupt();
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

}  // namespace batchflow::toys
