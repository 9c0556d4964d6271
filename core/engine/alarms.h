// What the engine must look at again at a given time: retries, time-outs, work done a part at a
// time.
//
// The backend is asked for one timer at a time, the earliest. Every step handles all that is due.
// So a timer that fires late, twice, or for an older request does no harm.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "core/base/types.h"
#include "core/engine/event.h"

namespace batchflow::engine {

enum class AlarmKind : std::uint8_t {
  retry_read,
  retry_prepare,
  late_prepare,
  rank_timeout,
  stranded,
  ask_allocation,
  ask_dispatch,
  look_at_job,
  go_on
};

struct Alarm {
  AlarmKind kind = AlarmKind::go_on;
  std::uint32_t subject = 0;
  std::uint64_t serial = 0;  // of the subject, which may be gone by then
};

class Alarms {
 public:
  void set(Instant at, Alarm alarm) { alarms_.emplace(std::pair{at, ++count_}, alarm); }

  std::optional<Alarm> next_due(Instant now) {
    if (alarms_.empty() || alarms_.begin()->first.first > now) return std::nullopt;
    const Alarm alarm = alarms_.begin()->second;
    alarms_.erase(alarms_.begin());
    return alarm;
  }

  // The command for a timer, if the earliest alarm has changed since the last such command.
  std::optional<SetTimer> timer_to_set(Instant now) {
    if (alarms_.empty()) return std::nullopt;
    const Instant at = alarms_.begin()->first.first;
    if (at == kNever) return std::nullopt;
    if (armed_ > now && armed_ <= at && armed_ != kNever) return std::nullopt;
    armed_ = at;
    return SetTimer{TimerId(++timers_), at};
  }

 private:
  std::map<std::pair<Instant, std::uint64_t>, Alarm> alarms_;
  std::uint64_t count_ = 0;
  std::uint64_t timers_ = 0;
  Instant armed_ = kNever;
};

}  // namespace batchflow::engine
