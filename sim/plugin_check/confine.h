// Takes from this process everything that a policy does not need. It may only compute.
#pragma once

namespace batchflow::sim {

// From here on, this process ends with exit code kForbidden when it does anything else: starts
// processes or threads, opens files or sockets, prints, sleeps, reads a clock. A line of JSON on
// `report` says what it tried. `may_time`: the CPU time of this thread may be asked for. False: the
// kernel cannot filter system calls, so all of it stays possible.
bool confine_policy(int report, bool may_time);

inline constexpr int kForbidden = 40;

}  // namespace batchflow::sim
