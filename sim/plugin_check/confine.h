// Takes from this process everything that a policy does not need: it may compute.
#pragma once

namespace batchflow::sim {

// From here on, what this process tries beside computing ends it with exit code kForbidden, and a
// line of JSON on `report` says what that was: it starts processes or threads, opens files or
// sockets, prints, sleeps, reads a clock. `may_time`: the CPU time of this thread may be asked for.
// False: the kernel cannot filter system calls, so all of it stays possible.
bool confine_policy(int report, bool may_time);

inline constexpr int kForbidden = 40;

}  // namespace batchflow::sim
