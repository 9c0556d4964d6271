// Sources of a scenario that grow while jobs read them (docs/live.md): when records are made, what
// happens on their way to the log, and how jobs read them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/types.h"
#include "programs/config/config.h"
#include "programs/input/quantities.h"

namespace batchflow::input {

// When records are made.
struct ArrivalModel {
  // even: equally far apart. poisson: one does not depend on another. bursts: poisson, for some
  // time, and then none for some time. recorded: poisson, at rates that a file has.
  enum class Process : std::uint8_t { poisson, even, bursts, recorded };
  Process process = Process::poisson;
  double per_s = 0;  // of bursts: while they last
  // Of bursts, and of the pauses between them: mean lengths. Each is exponential.
  Duration burst{0};
  Duration pause{0};
  struct Rate {
    Duration from{0};
    double per_s = 0;
  };
  std::vector<Rate> recorded;  // `from` grows, and the last one stays
};

struct LiveModel {
  ArrivalModel arrivals;
  Duration ends_after{0};  // no record is made after that; 0: when the dataset's samples are
  Duration lag{0};         // from where a record is made to the log
  Spread lag_spread;
  double lost = 0;         // the part of records that never come to the log
  Duration late_after{0};  // what is so much older than the newest record is left out; 0: nothing
  Bytes keep = Bytes{1} << 30;                   // by the log
  bool can_wait = true;                          // producers do where the log is nearly full
  Duration sync = std::chrono::milliseconds(1);  // until what was written is durable
  std::uint32_t classes = 0;
  // After so many records the next class comes. 0: each record has a class at random.
  std::uint64_t class_every = 0;
};

// How a job reads a source, as batchflow.Live has it.
struct LiveReading {
  Duration fills_after = std::chrono::milliseconds(200);
  std::uint64_t fills_from = 4096;  // the last so many records; 0: it waits for as long as it takes
  bool fills_cut = false;           // batches are short where records are missing
  bool from_newest = false;         // it begins with the next record that comes
};

LiveModel read_live_model(config::ConfigSection& section);
LiveReading read_live_reading(config::ConfigSection& section);

}  // namespace batchflow::input
