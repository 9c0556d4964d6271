// Makes a job trace that follows a SynthModel: the usual model, so that nothing need be downloaded,
// or a model of a given trace. The same options give the same trace. On a machine with another C
// library single times may differ by a second, because logarithms may differ in their last bit.
#pragma once

#include <cstdint>
#include <string>

#include "traces/job_model.h"

namespace batchflow::traces {

struct SynthOptions {
  std::uint64_t jobs = 100'000;
  std::uint64_t days = 75;
  std::uint64_t gpus = 2'490;  // of the cluster: no job asks for more
  std::uint64_t seed = 1;
  Progress progress;
};

// Submissions fill the days from Monday 2018-01-01 on. Jobs start on that many GPUs, first come,
// first served. Throws ConfigError when no job of the model fits the cluster.
JobTrace synthesize_jobs(const SynthModel& model, const SynthOptions& options);

// `gen:cluster[,jobs=N][,days=D][,gpus=G][,seed=S]` makes the usual trace; other names are files.
JobTrace open_job_trace(const std::string& name, const JobReadOptions& options = {});

}  // namespace batchflow::traces
