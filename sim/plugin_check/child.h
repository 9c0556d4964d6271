// A phase of a check, in a process of its own with limits.
#pragma once

#include <chrono>
#include <string>

#include "sim/plugin_check/phases.h"

namespace batchflow::sim {

struct PhaseResult {
  std::string answer;   // the JSON that it printed
  std::string problem;  // how it ended, if not by itself
};

class PhaseProcess {
 public:
  // `variation`: processes that differ by it have other environments, and other addresses.
  PhaseProcess(const PhaseOptions& options, std::chrono::seconds most, int variation = 0);
  PhaseProcess(const PhaseProcess&) = delete;
  ~PhaseProcess();
  PhaseResult wait();

 private:
  int process_ = -1;
  int report_ = -1;
  std::chrono::seconds most_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace batchflow::sim
