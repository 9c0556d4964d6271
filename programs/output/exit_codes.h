// The exit codes of all programs (docs/compatibility.md); 0 says that it is done.
#pragma once

namespace batchflow::output {

inline constexpr int kFailed = 1;  // what was asked for was not done, or was found wrong
inline constexpr int kBadInput = 2;
inline constexpr int kInterrupted = 130;

}  // namespace batchflow::output
