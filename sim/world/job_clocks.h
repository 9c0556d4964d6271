// Counts the time of jobs' ranks: for each job, for all of them, and for the watch.
#pragma once

#include <cstdint>

#include "sim/world/counters.h"
#include "sim/world/job.h"
#include "sim/world/kernel.h"
#include "sim/world/watch.h"

namespace batchflow::world {

class JobClocks {
 public:
  JobClocks(const Kernel& kernel, Counters& counters, Watch& watch)
      : kernel_(kernel), counters_(counters), watch_(watch) {}

  // The rank waited for others until now.
  void idled(Job& job, Rank number);
  // One of the job's ranks did this for so long.
  void add_idle(Job& job, Duration waited) { add(job, &Job::idle, &Counters::idle, waited); }
  void add_stall(Job& job, Duration waited) { add(job, &Job::stall, &Counters::stall, waited); }
  void add_compute(Job& job, Duration spent);
  // What was computed will be computed again, so the sums count it as idle time.
  void lost(Job& job, Duration computed);
  // Of a job that stops in the middle: counts until now what its ranks are doing.
  void count_unfinished(Job& job);

  // What ranks are doing, as far as it is not in the counters yet.
  struct UnderWay {
    TotalTime compute{0};
    TotalTime stall{0};
    TotalTime idle{0};
    std::uint64_t ranks = 0;
    std::uint64_t stalling = 0;
  };
  void add_under_way(const Job& job, UnderWay& sum) const;

 private:
  void add(Job& job, TotalTime Job::*of_job, TotalTime Counters::*of_all, Duration of_one_rank);

  const Kernel& kernel_;
  Counters& counters_;
  Watch& watch_;
};

}  // namespace batchflow::world
