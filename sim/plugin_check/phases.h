// What a check of a plugin does with it, each in a process of its own that may do nothing but that.
// Each phase prints one object of JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace batchflow::sim {

// Where a phase reports, and what it knows its memory by.
inline constexpr int kReport = 3;
inline constexpr int kMemory = 4;

struct PhaseOptions {
  std::string phase;   // rules, cost, battery
  std::string plugin;  // a file
  std::uint64_t seeds = 0;
};

// Of the process of a phase. Returns its exit code.
int run_phase(const PhaseOptions& options);

}  // namespace batchflow::sim
