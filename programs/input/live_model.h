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
  // even: at equal distances. poisson: each independent of the others. bursts: poisson for some
  // time, and then none for some time. recorded: poisson, at the rates in a file.
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
  Duration ends_after{0};  // no record is made after that; 0: until all samples are made
  Duration lag{0};         // from where a record is made to the log
  Spread lag_spread;
  double lost = 0;              // the part of records that never come to the log
  Duration late_after{0};       // a record older than the newest by more is left out; 0: none
  Bytes keep = Bytes{1} << 30;  // by the log
  bool can_wait = true;         // producers wait where the log is nearly full
  Duration sync = std::chrono::milliseconds(1);  // until what was written is durable
  std::uint32_t classes = 0;
  // After so many records the next class comes. 0: each record has a class at random.
  std::uint64_t class_every = 0;
};

// How a job reads a source, as batchflow.Live has it.
struct LiveReading {
  Duration fills_after = std::chrono::milliseconds(200);
  std::uint64_t fills_from = 4096;  // from this many of the last records; 0: the job waits instead
  bool fills_cut = false;           // batches are short where records are missing
  bool from_newest = false;         // it begins with the next record that comes
};

LiveModel read_live_model(config::ConfigSection& section);
LiveReading read_live_reading(config::ConfigSection& section);

}  // namespace batchflow::input
