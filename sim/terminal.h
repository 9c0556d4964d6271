// What a program shows while it works, and how it is stopped.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>

namespace batchflow::sim {

// Thrown where long work looks whether it was interrupted; main answers it with exit code 130.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

// From now on SIGINT and SIGTERM are noticed by `check_interrupted`; a second one kills.
void catch_interrupts();
void check_interrupted();

// A bar on standard error, where that is a terminal; otherwise nothing. Any thread may report.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();  // wipes it
  ProgressBar(const ProgressBar&) = delete;

  // Done, in [0, 1]; less than 0: nobody knows.
  void show(double done);

 private:
  std::string label_;
  bool visible_;
  std::mutex painting_;
  std::chrono::steady_clock::time_point painted_{};
};

}  // namespace batchflow::sim
