// SimGrid as the simulator uses it: a clock, timers, and flows that share what they run on.
//
// There are no actors: everything is started from SimGrid's maestro context, and completions come
// by callback. Timers are the kernel's own, in a heap of which SimGrid sees only the head. All that
// happens at one instant is collected. First come the callbacks of the flows that are over, in the
// order in which the flows were started; then the timers that are due, in the order in which they
// were set. Then `each_instant` is called, once, before time goes on. A timer of no time, set at
// that instant, makes another round of the same instant.
//
// A timer fires at its exact nanosecond, always. The end of a flow is rounded to the nearest
// nanosecond (sim_time.h says what that means), and is never before what has happened already.
//
// There is one SimGrid a process, and so one Kernel; run another simulation in another process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/types.h"

namespace simgrid::s4u {
class Host;
class NetZone;
}  // namespace simgrid::s4u

namespace batchflow::world {

using FlowId = std::uint64_t;  // never used again
using Then = std::function<void()>;

class Kernel {
 public:
  Kernel();
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  // Hosts and links are added to it before `run`.
  simgrid::s4u::NetZone& zone() { return zone_; }

  Instant now() const { return now_; }
  void after(Duration delay, Then then);  // a negative delay is none
  void at(Instant when, Then then);       // no earlier than now

  // `work` done on a host that shares its speed among all flows by weight. No flow is faster than
  // its `bound` (0: no bound).
  struct Work {
    double work;  // REQUIRES: > 0
    double bound = 0;
    double weight = 1;
  };
  FlowId start_work(simgrid::s4u::Host& host, const Work& work, Then then);
  // Bytes over the links between two hosts. REQUIRES: bytes > 0
  FlowId start_transfer(simgrid::s4u::Host& from, simgrid::s4u::Host& to, double bytes, Then then);
  // Its `then` is not called any more. Nothing happens if the flow is over.
  void cancel(FlowId flow);
  // Hosts have another speed: shares are computed anew.
  void speeds_changed();

  void each_instant(Then then) { each_instant_ = std::move(then); }
  // Until nothing is left to happen, or `stop`.
  void run();
  // The same, no further than to `when`; `run` goes on from there, as if it had not been halted.
  void run_until(Instant when);
  bool stopped() const { return stopped_; }
  void stop();

  // Timers that are set, and flows under way.
  std::size_t pending() const;
  std::uint64_t flows_started() const { return flows_started_; }

 private:
  struct SimGrid;  // holds what needs SimGrid's headers
  struct Timed {
    Instant when;
    std::uint64_t serial;
    Then then;
  };
  static bool later(const Timed& a, const Timed& b);

  std::vector<FlowId> under_way() const;  // by number
  void begin();
  void settle();
  void run_finished();
  void run_due_timers();
  bool something_due() const;
  void head_is_due();
  void arm();

  std::unique_ptr<SimGrid> simgrid_;
  simgrid::s4u::NetZone& zone_;
  Then each_instant_;
  Instant now_{};
  std::vector<Timed> timers_;  // a heap
  std::uint64_t serials_ = 0;
  std::uint64_t flows_started_ = 0;
  bool begun_ = false;    // begin() was called
  bool stopped_ = false;  // stop() was called: no timer comes any more
};

}  // namespace batchflow::world
