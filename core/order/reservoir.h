// A uniform choice of all records that a live job has had (docs/order.md, "Live").
//
// J. S. Vitter, "Random Sampling with a Reservoir", ACM TOMS 1985, algorithm R. Which records are
// in it follows from its name and from how many records there were, so a job that goes on finds it
// again by passing over their numbers: some nanoseconds for each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/order/keys.h"

namespace batchflow::order {

struct ReservoirName {
  std::uint64_t seed = 0;   // of the job's order
  std::uint64_t first = 0;  // the job's first record
  std::uint32_t most = 0;   // records that it has at most
  friend constexpr auto operator<=>(const ReservoirName&, const ReservoirName&) = default;
};

class Reservoir {
 public:
  // Of no record yet. REQUIRES: name.most > 0
  Reservoir(Digest dataset_version, const ReservoirName& name);
  // The same after all records before `next`, when it has `records` in their slots.
  Reservoir(Digest dataset_version, const ReservoirName& name, std::uint64_t next,
            std::vector<std::uint32_t> records);

  const ReservoirName& name() const { return name_; }
  // The first record that it has not been shown.
  std::uint64_t next() const { return next_; }
  // By slot: which records it has.
  std::span<const std::uint32_t> records() const { return records_; }
  // It is shown the records before `next`, but at most so many. True: all of them.
  bool show(std::uint64_t next, std::uint64_t most = UINT64_MAX);

 private:
  Digest dataset_version_;
  ReservoirName name_;
  std::uint64_t next_;
  std::vector<std::uint32_t> records_;
};

}  // namespace batchflow::order
