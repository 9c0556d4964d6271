// Failpoints: named points in the runtime's code that a test or a user can make fail.
//
//   if (BF_FAILPOINT("storage.read.error")) return EIO;
//   length = BF_FAILPOINT_SHORT("storage.read.short", length);
//
// Failpoints are in every build. A failpoint that is off costs one relaxed load. A program calls
// configure_failpoints() when it starts, with the environment's BATCHFLOW_FAILPOINTS: entries with
// commas between them,
//
//   name=action[:probability][:count]     storage.read.error=fail:0.01:5
//   *=action[:probability][:count]        every failpoint
//   seed=7
//   report=FILE                           report_failpoints() appends to it
//
// A later entry for the same name replaces an earlier one. `probability` is at most 1, the default.
// `count` is the most times that the failpoint acts. Whether it acts when it is reached for the
// n-th time follows from the seed, its name and n alone. Actions:
//
//   fail      BF_FAILPOINT answers true: the code does what it does when this fails
//   short     BF_FAILPOINT_SHORT answers fewer bytes than it was given; BF_FAILPOINT as `fail`
//   delay     the thread sleeps for 10 ms; `delay-500`: for 500 ms
//   kill      the process kills itself (SIGKILL)
//   count     nothing happens, but the failpoint counts how often it is reached
//
// REQUIRES: used in functions of .cpp files that are neither inline nor templates, so that each
// failpoint exists once.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/types.h"

namespace batchflow::failpoint {

// Replaces the earlier configuration, and sets all counts to 0. An empty text turns all failpoints
// off. Throws ConfigError for a text that cannot be read, or that names no failpoint of this
// program. Counts and draws are exact if no other thread reaches a failpoint meanwhile.
void configure_failpoints(std::string_view text);

struct FailpointCount {
  std::string_view name;
  std::uint64_t reached = 0;
  std::uint64_t acted = 0;
};
// The counts of all failpoints of this program, by name; those with the same name are summed. They
// count while any failpoint is configured.
std::vector<FailpointCount> failpoint_counts();
// Appends a line `PROCESS NAME REACHED ACTED` for each failpoint to the configured file, if there
// is one. This is for processes that cannot be asked. Of several reports of a process the last
// counts.
void report_failpoints();

// -------------------------------------------------------------------------- under the macros ----

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

}  // namespace batchflow::failpoint

// The linker puts the addresses of all failpoints into one section. So an unknown name is an error,
// and a failpoint that is never reached can be found.
#define BF_FAILPOINT_DEFINE_(text)                         \
  static ::batchflow::failpoint::Failpoint bf_point{text}; \
  [[gnu::section("bf_failpoints"),                         \
    gnu::used]] static ::batchflow::failpoint::Failpoint* bf_point_address = &bf_point
#define BF_FAILPOINT(text)                                                          \
  ([]() -> bool {                                                                   \
    BF_FAILPOINT_DEFINE_(text);                                                     \
    return ::batchflow::failpoint::failpoints_on.load(std::memory_order_relaxed) && \
           ::batchflow::failpoint::reach_failpoint(bf_point);                       \
  }())
// Where it acts and bytes > 1, it answers at least 1 and less than `bytes`. REQUIRES: bytes > 0
#define BF_FAILPOINT_SHORT(text, bytes)                                          \
  ([](::batchflow::Bytes bf_bytes) -> ::batchflow::Bytes {                       \
    BF_FAILPOINT_DEFINE_(text);                                                  \
    return ::batchflow::failpoint::failpoints_on.load(std::memory_order_relaxed) \
               ? ::batchflow::failpoint::reach_failpoint(bf_point, bf_bytes)     \
               : bf_bytes;                                                       \
  }(bytes))
