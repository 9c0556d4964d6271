// When a sample is wanted next. Orders are made from seeds, so the future of jobs is known: exactly
// for strict and sequential jobs, and for relaxed ones whether it comes in this epoch or in the
// next.
#pragma once

#include <cstdint>

#include "core/engine/state.h"

namespace batchflow::engine {

class Future {
 public:
  explicit Future(EngineState& state) : s_(state) {}

  // The instant, in nanoseconds, at which a job of the dataset is expected to want the sample next,
  // beside what is being made already; kNeverUsed: no job that is here now. `prefix`: a job that
  // uses this form (0: as it is stored). Of very many jobs some are looked at.
  std::uint64_t next_use(const Dataset& dataset, Digest prefix, SampleId sample);

 private:
  // In samples of the job; below 0: never.
  double in_sequence(const Stream& stream, const Job& job, SampleId sample);
  static double in_next_epoch(const Stream& stream, const Job& job);
  static double left(const Stream& stream, const Job& job);
  bool is_to_come(const Stream& stream, const Job& job, SampleId sample);
  std::uint64_t index(const Stream& stream, std::uint64_t generation, const order::LaneSizes& sizes,
                      SampleId sample);

  EngineState& s_;
};

}  // namespace batchflow::engine
