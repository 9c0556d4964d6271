// Toy jobs on a live service. They sleep instead of computing, and do nothing else, so that all
// their waiting is for the service. They use the C interface, as programs of users do. Their
// samples are checked by their keys alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "programs/output/results.h"
#include "runtime/client/batchflow.h"

namespace batchflow::toys {

struct ToyJob {
  std::string service;   // its socket; empty: the client library finds it
  std::string name;      // empty: the service gives the job a name
  std::string dataset;   // a name, or a path
  std::string pipeline;  // empty: the dataset's default
  bf_order order = BF_RELAXED;
  bool has_shuffle_seed = false;  // else the service draws one
  std::uint64_t shuffle_seed = 0;
  bool node_local = false;               // an order for each node
  bool runs = false;                     // adjacent samples stay together
  std::uint32_t rehearsed = 0;           // of each batch: from `exemplars`, or from a buffer
  std::vector<std::uint64_t> exemplars;  // keys
  std::uint32_t buffer_exemplars = 0;
  std::string buffer_policy;
  bool drop_last = false;   // without the incomplete step at an epoch's end
  std::uint32_t batch = 1;  // of one rank
  std::uint32_t ranks = 1;
  std::uint32_t epochs = 1;
  std::uint64_t steps = 0;  // 0: all steps of its epochs
  std::uint32_t credits = 0;
  double weight = 0;
  double latency_target_s = 0;
  std::chrono::nanoseconds compute{0};  // for each step
  std::chrono::nanoseconds arrives{0};
  std::chrono::nanoseconds start_up{0};
  std::chrono::nanoseconds leaves_after{0};  // 0: at the end of its last epoch
};

struct ToyOutcome {
  output::JobResult result;  // its times count from the start of run_toys
  std::uint64_t repeats = 0;
  std::uint64_t copied = 0;  // batches
  // The first promise that was broken: a sample came twice in an epoch, or never.
  std::string wrong;
};

// Runs all jobs, with a thread for each rank. Jobs wait in the order of their arrival, each until
// as many of `gpus` are free as it has ranks. If `stop` answers true they end early, and the
// outcomes are those until then.
std::vector<ToyOutcome> run_toys(std::span<const ToyJob> jobs, std::uint32_t gpus,
                                 const std::function<bool()>& stop);

}  // namespace batchflow::toys
