#include "sim/world/journal_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/config_value.h"
#include "programs/output/output.h"

namespace batchflow::world {

JournalFile::JournalFile(const std::string& path, const log::JournalHeader& header,
                         const engine::Catalogues& catalogues, Bytes bytes_max)
    : path_(path) {
  if (!path.empty()) journal_.emplace(header, catalogues, bytes_max);
}

void JournalFile::open() {
  file_.reset(std::fopen(path_.c_str(), "wb"));
  if (file_) return;
  throw ConfigError(path_ + ": cannot be written: " + std::strerror(errno) +
                    "; name a file in an existing directory you may write to");
}

void JournalFile::record_events(Instant now, std::span<const engine::Event> events) {
  if (!journal_) return;
  if (!file_) open();
  journal_->record_events(now, events);
  write();
}

void JournalFile::record_commands(std::span<const engine::Command> commands) {
  if (journal_) journal_->record_commands(commands);
}

void JournalFile::close() {
  if (!file_) return;
  journal_->close();
  write();
  if (std::fflush(file_.get()) != 0) fail(errno);
}

// A journal that ends in the middle of a step is useless, so it is removed. A device stays.
void JournalFile::fail(int error) {
  file_.reset();
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path_, ignored)) std::filesystem::remove(path_, ignored);
  throw output::OutputError(
      path_ + ": cannot be written: " + std::strerror(error) + "; make room, or write elsewhere",
      error);
}

void JournalFile::write() {
  const auto bytes = journal_->pending();
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) fail(errno);
  journal_->clear_pending();
}

}  // namespace batchflow::world
