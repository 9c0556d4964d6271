// Another program, which this program starts, writes to, and reads line by line. It is to end when
// its standard input does. Its group of processes is its own, so an interrupt from the terminal
// reaches this program alone.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace batchflow::sim {

class LineProgram {
 public:
  // The program is looked for in PATH. Throws ConfigError where it cannot be started.
  explicit LineProgram(std::vector<std::string> words);
  ~LineProgram();  // kills it
  LineProgram(const LineProgram&) = delete;

  const std::string& name() const { return name_; }  // as it would be typed
  void write(std::string_view text);
  void end_input();
  // Waits at most a tenth of a second for more, and calls `take` with each line that is whole.
  // False: no more will come.
  bool read(const std::function<void(const std::string&)>& take);
  // How it ended, in words; empty: well. REQUIRES: read() has said that no more will come.
  std::string wait();

 private:
  void close();

  std::string name_;
  pid_t process_ = -1;
  int in_ = -1;
  int out_ = -1;
  std::string line_;  // its beginning, as far as it has come
};

}  // namespace batchflow::sim
