// The memory of this process, by the operating system's count.
#pragma once

#include <unistd.h>

#include <fstream>

namespace batchflow::bench {

inline double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  double all = 0;
  double resident = 0;
  statm >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace batchflow::bench
