// Named places in the runtime at which a test, or whoever wants to see what happens, lets something
// go wrong.
//
//   if (BF_FAILPOINT("storage.read.error")) return EIO;
//   length = BF_FAILPOINT_SHORT("storage.read.short", length);
//
// They are in every build; one that is off costs one relaxed load. A program calls
// configure_failpoints() with the environment's BATCHFLOW_FAILPOINTS when it starts: entries with
// commas between them,
//
//   name=action[:probability][:count]     storage.read.error=fail:0.01:5
//   *=action[:probability][:count]        every place
//   seed=7
//   report=FILE                           report_failpoints() appends to it
//
// where a later entry for the same name replaces an earlier one, probability is at most 1 (the
// default), and count is how often it acts at most. The n-th time a place is reached it acts or
// not by the seed, its name and n alone. Actions:
//
//   fail      BF_FAILPOINT answers true: the place does what it does when this goes wrong
//   short     BF_FAILPOINT_SHORT gives fewer than it was given; BF_FAILPOINT as `fail`
//   delay     the thread sleeps 10 ms there; `delay-500` for 500 ms
//   kill      the process kills itself (SIGKILL)
//   count     nothing, but how often the place is reached is counted
//
// REQUIRES: used in functions of .cpp files that are neither inline nor templates, so that each
// place is there once.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace batchflow {

// Replaces what was configured before and begins counting anew; empty turns all off. Throws
// ConfigError for what cannot be read or names no place of this program. Counts and chances are
// exact when no other thread reaches a place meanwhile.
void configure_failpoints(std::string_view text);

struct FailpointCount {
  std::string_view name;
  std::uint64_t reached = 0;
  std::uint64_t acted = 0;
};
// All places of this program by name; those of one name together. Counted while any is configured.
std::vector<FailpointCount> failpoint_counts();
// Appends a line `PROCESS NAME REACHED ACTED` for each place to the file that is configured, if one
// is: for a process that nobody can ask. What it says last counts.
void report_failpoints();

// ------------------------------------------------------------------- what the macros stand on ----

struct Failpoint {
  enum class Action : std::uint8_t { off, count, fail, shorten, delay, kill };

  const char* name;
  std::atomic<Action> action{Action::off};
  std::atomic<std::uint64_t> threshold{0};  // acts when a draw is below it or equal
  std::atomic<std::int64_t> left{0};
  std::atomic<std::uint32_t> delay_ms{0};
  std::atomic<std::uint64_t> reached{0};
  std::atomic<std::uint64_t> acted{0};
};

extern std::atomic<bool> failpoints_on;
bool reach_failpoint(Failpoint& point);
Bytes reach_failpoint(Failpoint& point, Bytes bytes);

}  // namespace batchflow

// The linker gathers the addresses of all places in one section, so that a name nobody uses is an
// error, and one that is never reached is seen.
#define BF_FAILPOINT_PLACE_(text)                                                                \
  static ::batchflow::Failpoint bf_point{text};                                                  \
  [[gnu::section("bf_failpoints"), gnu::used]] static ::batchflow::Failpoint* bf_point_address = \
      &bf_point
#define BF_FAILPOINT(text)                                               \
  ([]() -> bool {                                                        \
    BF_FAILPOINT_PLACE_(text);                                           \
    return ::batchflow::failpoints_on.load(std::memory_order_relaxed) && \
           ::batchflow::reach_failpoint(bf_point);                       \
  }())
// REQUIRES: bytes > 0. Gives at least 1 and less than `bytes` where it acts and bytes > 1.
#define BF_FAILPOINT_SHORT(text, bytes)                               \
  ([](::batchflow::Bytes bf_bytes) -> ::batchflow::Bytes {            \
    BF_FAILPOINT_PLACE_(text);                                        \
    return ::batchflow::failpoints_on.load(std::memory_order_relaxed) \
               ? ::batchflow::reach_failpoint(bf_point, bf_bytes)     \
               : bf_bytes;                                            \
  }(bytes))
