// How far the ranks of a job may go: one number that all of them see change at once.
//
// A step's batches lie in as many rings as there are ranks. If the service is killed between two of
// them, some ranks would have a step that others can never get. So a batch counts as there only
// when its step is below the number in the job's pace file, which the service raises by one store
// when the batches of all ranks have been written. All ranks then leave a service that has died
// after the same step, each having been given its part of every sample up to there.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "runtime/protocol/descriptor.h"
#include "runtime/protocol/mapping.h"

namespace batchflow {

class Pace {
 public:
  Pace() = default;
  // The service's side. Empty, with the reason in `problem`, without memory for it.
  static Pace make(std::string& problem);
  // A rank's side, which can only read it.
  static Pace of(const Descriptor& file, std::string& problem);

  explicit operator bool() const { return static_cast<bool>(page_); }
  const Descriptor& file() const { return file_; }  // the service's

  // Steps below are there for all ranks.
  std::uint64_t steps() const { return word().load(std::memory_order_acquire); }
  void raise(std::uint64_t steps) const { word().store(steps, std::memory_order_release); }

 private:
  std::atomic<std::uint64_t>& word() const;

  Mapping page_;
  Descriptor file_;
};

}  // namespace batchflow
