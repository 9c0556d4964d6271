// A result on its way to a file: written under a temporary name beside it and renamed when whole,
// so that no reader ever finds half of it. `-` is standard output; devices and pipes are written as
// they are.
#pragma once

#include <string>
#include <string_view>

namespace batchflow::sim {

class OutputFile {
 public:
  // Throws ConfigError when `path` cannot be written, before the work that fills it is done.
  explicit OutputFile(std::string path);
  ~OutputFile();  // leaves nothing behind unless `write` has ended
  OutputFile(const OutputFile&) = delete;

  bool to_standard_output() const { return path_ == "-"; }
  // Throws ConfigError when not all of it could be written.
  void write(std::string_view text);

 private:
  [[noreturn]] void fail() const;

  std::string path_;
  std::string temporary_;  // empty: written directly
  int descriptor_ = -1;
};

}  // namespace batchflow::sim
