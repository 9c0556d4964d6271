// Two runs of the same jobs: in one services, ranks and workers are killed, jobs change in size and
// mixtures in weights; in the other nothing happens, and the weights are known from the beginning.
// Of the steps that count, both must have the same samples in the same order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/types.h"
#include "tests/driver/disturbances.h"

namespace batchflow::test {

// What the disturbed run has of the other's samples.
struct Compared {
  std::uint64_t samples = 0;    // of the undisturbed run
  std::uint64_t lost = 0;       // that the disturbed run does not have, or less often
  std::uint64_t doubled = 0;    // that it has more often
  std::uint64_t differing = 0;  // sequences that are not the same

  void add(const Compared& other);
};
Compared compare(std::span<const SampleId> undisturbed, std::span<const SampleId> disturbed);

class DisturbedPair {
 public:
  enum class Kind : std::uint8_t { strict, mixture, live };

  DisturbedPair(Kind kind, std::uint64_t seed) : kind_(kind), seed_(seed) {}

  // Throws Violation where a run breaks a rule that the driver's checker knows.
  void run();
  const Compared& compared() const { return compared_; }
  const Disturbances& disturbances() const { return disturbances_; }

 private:
  Kind kind_;
  std::uint64_t seed_;
  Compared compared_;
  Disturbances disturbances_;
};

}  // namespace batchflow::test
