// How a program meets the terminal it was started from: what it says and shows while it works, and
// how it is stopped.
#pragma once

#include <chrono>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

namespace batchflow {

// Before anything else in main: a standard stream that is closed leads nowhere from now on, so that
// no file that is opened later is taken for it. To read or write there is an error.
void open_standard_streams();

// Thrown where long work looks whether it was interrupted; main answers it with exit code 130.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

// From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT are noticed by `check_interrupted` (a second one
// kills), and a reader that is gone or a file that is too large is an error of the write.
void catch_signals();
void check_interrupted();
bool was_interrupted();

// Ends the program as a reader that is gone ends any other.
void die_of_broken_pipe();

// `text` without what moves a cursor or turns text around: control characters are written as \x1b,
// marks of direction as \u202e.
std::string printable(std::string_view text);

// One line for people, on standard error. It may be lost, where there is nobody.
void say(std::string_view line);

// A bar on standard error, where that is a terminal; otherwise nothing. It never takes more than
// one line, however narrow. Any thread may report.
class ProgressBar {
 public:
  explicit ProgressBar(std::string_view label);
  ~ProgressBar();  // wipes it
  ProgressBar(const ProgressBar&) = delete;

  // Done, in [0, 1]; less than 0: nobody knows. `beside` is said beside the label.
  void show(double done, std::string_view beside = {});

 private:
  std::string label_;
  bool visible_;
  std::mutex painting_;
  std::chrono::steady_clock::time_point painted_{};
};

}  // namespace batchflow
