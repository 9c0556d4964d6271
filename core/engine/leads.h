// How many blocks each job is ahead of the slowest job of its stream.
#pragma once

#include <cstdint>
#include <vector>

#include "core/engine/state.h"

namespace batchflow::engine {

class Leads {
 public:
  explicit Leads(const EngineState& state) : s_(state) {}

  // Counts the job level with the others of its stream. A job that comes later, or comes back, is
  // not behind because of blocks that the others had without it.
  void level(Job& job);
  // Jobs move on: the slowest of each stream is looked for again when a lead is asked for.
  void measure_again() { ++times_; }
  std::uint32_t lead(const Job& job);

 private:
  static bool has_taken_all(const Job& job);
  static std::int64_t progress(const Stream& stream, const Job& job);
  std::int64_t slowest(const Stream& stream, const Job* but) const;

  const EngineState& s_;
  struct Slowest {  // of a stream
    std::uint64_t as_of = 0;
    std::int64_t progress = 0;
  };
  std::vector<Slowest> slowest_;
  std::uint64_t times_ = 0;  // measured
};

}  // namespace batchflow::engine
