// A fault of a scenario, as data: what goes wrong, with which part of the scenario, when, and for
// how long.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/types.h"
#include "programs/config/config.h"

namespace batchflow::input {

struct Scenario;

struct FaultModel {
  enum class Kind : std::uint8_t {
    node_lost,    // with all that is on it
    worker_lost,  // of a node: processes that prepare
    drive_lost,  // the NVMe drive of a node with its content; or the store, which cannot be reached
    drive_slow,
    link_down,  // nothing moves between the machines behind it and the rest
    link_slow,
    worker_slow,
    corrupt_samples,  // of a dataset: bytes that cannot be decoded
    reads_failed,     // from a drive
  };
  enum class Target : std::uint8_t { node, link, store, dataset };

  Kind kind = Kind::node_lost;
  std::string name;  // of the target, as it was written
  Target target = Target::node;
  std::size_t index = 0;  // of the node, link or dataset
  Instant at{};
  Duration lasts{0};                            // 0: for good
  Duration detected_after{0};                   // a lost node or worker
  Duration quiet_after{0};                      // a lost worker: until it is known to write no more
  Duration timeout = std::chrono::seconds(30);  // of a command that cannot get through
  double factor = 1;                            // of its speed, while it is slow
  std::uint64_t count = 1;                      // workers, samples
  Ratio ratio;                                  // of reads

  std::string_view kind_name() const;
};

// REQUIRES: cluster, datasets, grain and end of the scenario are there already.
FaultModel read_fault(config::ConfigSection& section, const Scenario& scenario);

}  // namespace batchflow::input
