#include "sim/world/run_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/config_value.h"
#include "programs/output/output.h"

namespace batchflow::world {

void RunFile::open() {
  file_.reset(std::fopen(path_.c_str(), "wb"));
  if (file_) return;
  throw ConfigError(path_ + ": cannot be written: " + std::strerror(errno) +
                    "; name a file in an existing directory you may write to");
}

void RunFile::write(std::span<const std::byte> bytes) {
  if (!file_) open();
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) fail(errno);
}

void RunFile::close() {
  if (file_ && std::fflush(file_.get()) != 0) fail(errno);
}

// A part of a file would look like the whole, so it is removed. A device stays.
void RunFile::fail(int error) {
  file_.reset();
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path_, ignored)) std::filesystem::remove(path_, ignored);
  throw output::OutputError(
      path_ + ": cannot be written: " + std::strerror(error) + "; make room, or write elsewhere",
      error);
}

}  // namespace batchflow::world
