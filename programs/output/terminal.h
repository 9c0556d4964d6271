// How a program uses its terminal: what it prints and shows while it works, and how it is stopped.
#pragma once

#include <chrono>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

namespace batchflow::output {

// Called before anything else in main: a closed standard stream is opened to /dev/null, so that no
// file that is opened later is taken for it. To read or write it is an error.
void open_standard_streams();

// Thrown where long work checks whether it was interrupted; main ends with exit code 130.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

// From now on `check_interrupted` notices SIGINT, SIGTERM, SIGHUP and SIGQUIT (a second one kills),
// and a reader that is gone or a file that is too large is an error of the write.
void catch_signals();
void check_interrupted();
bool was_interrupted();

// Ends the program as a broken pipe ends any other.
void die_of_broken_pipe();

// `text` without characters that move a cursor or turn text around: control characters are written
// as \x1b, marks of direction as \u202e.
std::string printable(std::string_view text);
// The same for a page of HTML or XML.
std::string escaped(std::string_view text);

// One line for people, on standard error, where it may be lost.
void say(std::string_view line);

// A bar on standard error, where that is a terminal; otherwise nothing. It never takes more than
// one line, however narrow. Any thread may report.
class ProgressBar {
 public:
  explicit ProgressBar(std::string_view label);
  ~ProgressBar();  // wipes it
  ProgressBar(const ProgressBar&) = delete;

  // The share that is done, in [0, 1]; less than 0: unknown. `beside` is shown beside the label.
  void show(double done, std::string_view beside = {});

 private:
  std::string label_;
  bool visible_;
  std::mutex painting_;
  std::chrono::steady_clock::time_point painted_{};
};

}  // namespace batchflow::output
