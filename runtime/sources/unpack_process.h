// A confined process that unpacks files: Python by pyarrow, or batchflow-video-split.
#pragma once

#include <string>
#include <vector>

#include "runtime/protocol/descriptor.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::sources {

class UnpackProcess {
 public:
  static constexpr std::size_t kFilesMost = 16;
  struct File {
    protocol::Descriptor from, to;
    std::string path;
  };
  UnpackProcess() = default;
  ~UnpackProcess();
  UnpackProcess(const UnpackProcess&) = delete;
  UnpackProcess& operator=(const UnpackProcess&) = delete;

  // Begins to unpack the files, at most kFilesMost. `kind`: `parquet`, `arrow` or `video`. Of the
  // columns it takes those that are named, or all. Throws DatasetError where it cannot begin.
  void begin(std::string_view kind, std::vector<File> files,
             const std::vector<std::string>& columns);
  bool is_running() const { return process_ > 0; }
  // Whether it has ended. Throws DatasetError, with the path, if it did not end well.
  bool has_ended();

 private:
  std::string last_words();

  std::vector<File> files_;
  protocol::Descriptor says_;
  std::string said_;
  int process_ = -1;
};

}  // namespace batchflow::sources
