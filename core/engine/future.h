// When a sample is wanted next. Orders are made from seeds, so the future of jobs is known. For
// strict and sequential jobs it is known exactly. For relaxed jobs it is known whether the sample
// comes in this epoch or in the next. For weighted jobs, and for exemplars that a job rehearses,
// the sample's weight says when it may be expected.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/engine/state.h"

namespace batchflow::engine {

class Future {
 public:
  explicit Future(EngineState& state) : s_(state) {}

  // A lane of a relaxed stream: its jobs come to all samples of it together.
  struct Lane {
    const Stream* stream = nullptr;
    std::uint64_t generation = 0;
    order::LaneSizes sizes;
    std::uint32_t lane = 0;
  };
  // What is asked from here on is about samples of the dataset and, if given, of the lane. Ask anew
  // when jobs have moved on.
  void look_at(const Dataset& dataset, const std::optional<Lane>& lane = {});
  // The instant, in nanoseconds, at which a job of the dataset is expected to want the sample next,
  // beside what is being made already; kNeverUsed: no job that is here now will. `prefix`: only
  // jobs that use this form count (0: as it is stored). Of very many jobs only some are looked at.
  std::uint64_t next_use(Digest prefix, SampleId sample);

 private:
  // A job of the dataset, and what of its future is the same for all samples.
  struct Reader {
    const Stream* stream = nullptr;
    const Job* job = nullptr;
    double rate = 0;           // samples a second
    std::uint64_t made = 0;    // strict: samples of its sequence that are here, or being made
    double left_s = 0;         // relaxed: until it has half of what is left of its epoch
    double next_epoch_s = -1;  // and of the next epoch; below 0: there is none
    const order::Rehearsal* rehearsal = nullptr;
  };
  // Those that use samples in one form.
  struct Readers {
    bool known = false;
    Digest prefix = 0;
    std::vector<Reader> all;  // those of a stream follow one another
    bool alike = false;       // all samples of the lane are wanted at one instant:
    std::optional<std::uint64_t> next_use;
  };

  Readers& readers(Digest prefix);
  void add_reader(Readers& readers, const Stream& stream, const Job& job) const;
  std::uint64_t next_use_among(const std::vector<Reader>& all, SampleId sample);
  bool in_lane(const Reader& reader) const;
  // In samples of the job; below 0: never.
  double in_sequence(const Reader& reader, SampleId sample);
  double until_drawn(const Reader& reader, SampleId sample) const;
  static double until_rehearsed(const Reader& reader, SampleId sample);
  bool is_to_come(const Reader& reader, SampleId sample);
  std::uint64_t index(const Stream& stream, std::uint64_t generation, const order::LaneSizes& sizes,
                      SampleId sample);

  EngineState& s_;
  const Dataset* dataset_ = nullptr;
  std::optional<Lane> lane_;
  std::array<Readers, 2> readers_;  // of samples as they are stored, and of a decoded form
  // Where the sample stands in generations of the stream that is looked at: most jobs share one.
  struct Found {
    std::uint64_t generation = 0;
    order::LaneSizes sizes;
    std::uint64_t index = 0;
  };
  std::array<Found, 4> found_;
  std::size_t found_count_ = 0;
};

}  // namespace batchflow::engine
