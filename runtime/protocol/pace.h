// How far the ranks of a job may go: one number, which all ranks see change at the same time.
//
// The batches of a training step are in as many rings as there are ranks. If the service is killed
// between two of them, some ranks would have a step that others can never get. So a batch counts as
// there only when its step is below the number in the job's pace file. The service raises that
// number by one store when it has written the batches of all ranks. So all ranks leave a service
// that has died after the same step, and together they were given every sample up to there.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "runtime/protocol/descriptor.h"
#include "runtime/protocol/mapping.h"

namespace batchflow::protocol {

class Pace {
 public:
  Pace() = default;
  // For the service. Empty, with the reason in `problem`, where there is no memory for it.
  static Pace make(std::string& problem);
  // For a rank, which can only read the number.
  static Pace map_file(const Descriptor& file, std::string& problem);

  explicit operator bool() const { return static_cast<bool>(page_); }
  const Descriptor& file() const { return file_; }  // only after make()

  // The batches of all steps below are there, for all ranks.
  std::uint64_t steps() const { return word().load(std::memory_order_acquire); }
  void raise(std::uint64_t steps) const { word().store(steps, std::memory_order_release); }

 private:
  std::atomic<std::uint64_t>& word() const;

  Mapping page_;
  Descriptor file_;
};

}  // namespace batchflow::protocol
