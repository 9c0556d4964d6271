// The outputs of a command: `--json` and similar flags write to standard output, or with =FILE to a
// file. The table for people goes to standard output unless a result took it.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "programs/output/output.h"

namespace CLI {
class App;
}

namespace batchflow::output {

class OutputFlags {
 public:
  // Adds the flag `--NAME[=FILE]`, for a result in the format `format`.
  void add(CLI::App& command, std::string name, std::string_view format);

  // Called before the work is done. Throws ConfigError when a flag is there twice, a file cannot be
  // written, two results would go to one file, or a result would overwrite `input`.
  void check(const std::string& input = "") const;

  bool wanted(std::string_view name) const { return !path(name).empty(); }
  // Throws ConfigError, OutputError or Interrupted. REQUIRES: wanted(name)
  void write(std::string_view name, std::string_view text) const;
  void write(std::string_view name, const Content& content) const;
  // Writes text for people: to standard error when a result has standard output. There it may be
  // lost.
  void write_text(std::string_view text) const;
  // The destination; empty: the flag was not given.
  std::string path(std::string_view name) const;

 private:
  struct Flag {
    std::string name;
    std::vector<std::string> paths;  // as given; `-` is standard output
  };

  std::deque<Flag> flags_;  // a deque, because the command line holds their addresses
};

}  // namespace batchflow::output
