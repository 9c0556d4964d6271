// The promise of a buffer that the engine fills by `reservoir`, worked out again: of all samples
// that the job has had in steps that count, it keeps those with the smallest hash(13, D, buffer,
// sample). An epoch rehearses from what the buffer had when it began, and each exemplar comes once
// in each round of its draws. Other policies are checked for their rounds alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "core/base/types.h"

namespace batchflow::test {

class BufferCheck {
 public:
  BufferCheck(Digest version, std::uint64_t buffer, std::size_t exemplars_most, bool is_reservoir)
      : version_(version),
        buffer_(buffer),
        exemplars_most_(exemplars_most),
        is_known_(is_reservoir) {}

  // The job goes on, in the middle of an epoch or at its beginning, after so many of its draws.
  // `anew`: in a service that may not have seen all of its steps.
  void began(bool anew);
  // A step that counts has these draws, and then these new samples.
  void rehearsed(const std::vector<SampleId>& draws);
  void had(SampleId sample);
  void end_epoch();

  std::uint64_t checked() const { return checked_; }  // draws

 private:
  std::vector<SampleId> smallest() const;

  Digest version_;
  std::uint64_t buffer_;
  std::size_t exemplars_most_;
  bool is_known_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> had_;  // numbers, with their samples
  std::vector<SampleId> exemplars_;                        // of the epoch; sorted
  std::uint64_t drawn_ = 0;                                // in the epoch
  std::set<SampleId> round_;                               // of exemplars, since the job began
  std::uint64_t checked_ = 0;
};

}  // namespace batchflow::test
