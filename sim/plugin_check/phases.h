// The phases of the check of a plugin. Each runs in a process of its own, which may do nothing
// else, and prints one object of JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace batchflow::sim {

// The descriptors on which a phase reports, and from which it reads how much memory it uses.
inline constexpr int kReportDescriptor = 3;
inline constexpr int kMemoryDescriptor = 4;

struct PhaseOptions {
  std::string phase;   // rules, cost, battery
  std::string plugin;  // a file
  std::uint64_t seeds = 0;
};

// Of the process of a phase. Returns its exit code.
int run_phase(const PhaseOptions& options);

}  // namespace batchflow::sim
