// Toy jobs on a live service: they sleep for their computing and do nothing else, so that what they
// wait for is the service's doing. Through the C interface, as users have it; what they are handed
// is checked by ids alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "configs/reader/results.h"
#include "runtime/client/batchflow.h"

namespace batchflow {

struct ToyJob {
  std::string service;   // its socket; empty: where clients look
  std::string name;      // empty: the service gives one
  std::string dataset;   // a name, or a path
  std::string pipeline;  // empty: the dataset's
  bf_order order = BF_RELAXED;
  bool has_shuffle_seed = false;
  std::uint64_t shuffle_seed = 0;
  bool drop_last = false;
  std::uint32_t batch = 1;  // of one rank
  std::uint32_t ranks = 1;
  std::uint32_t epochs = 1;
  std::uint64_t steps = 0;  // 0: those of its epochs
  std::uint32_t credits = 0;
  double weight = 0;
  std::chrono::nanoseconds compute{0};  // a step
  std::chrono::nanoseconds arrives{0};
  std::chrono::nanoseconds start_up{0};
  std::chrono::nanoseconds leaves_after{0};  // 0: when it is through
};

struct ToyOutcome {
  JobResult result;  // its times count from the start of run_toys
  std::uint64_t repeats = 0;
  std::uint64_t copied = 0;  // batches
  // The first thing that was not as promised: a sample twice in an epoch, or never.
  std::string wrong;
};

// All of them, each rank a thread; a job waits, in the order of arrival, until as many of `gpus`
// are free as it has ranks. `stop` ends them early: what came of them so far is their outcome.
std::vector<ToyOutcome> run_toys(std::span<const ToyJob> jobs, std::uint32_t gpus,
                                 const std::function<bool()>& stop);

}  // namespace batchflow
