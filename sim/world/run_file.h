// A file that is written while a run goes on, if one was asked for. It begins with its first bytes,
// so that a run that ends before them has no file and keeps what was there. A file that cannot be
// written to its end (OutputError) is removed.
#pragma once

#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "core/base/types.h"

namespace batchflow::world {

class RunFile {
 public:
  // Empty: none was asked for.
  explicit RunFile(std::string path) : path_(std::move(path)) {}

  bool is_wanted() const { return !path_.empty(); }
  bool has_begun() const { return file_ != nullptr; }
  // Throws ConfigError when there is no file yet and none can be made.
  void write(std::span<const std::byte> bytes);
  // All is in the file.
  void close();

 private:
  void open();
  [[noreturn]] void fail(int error);

  struct Closes {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Closes> file_;
};

}  // namespace batchflow::world
