#include "sim/world/journal_file.h"

#include <cerrno>
#include <cstring>

#include "core/config_error.h"

namespace batchflow::sim {

JournalFile::JournalFile(const std::string& path, const JournalHeader& header, Bytes bytes_max)
    : path_(path) {
  if (path.empty()) return;
  file_.reset(std::fopen(path.c_str(), "wb"));
  if (!file_) {
    throw ConfigError(path + ": cannot write: " + std::strerror(errno) +
                      "; name a file in an existing directory you may write to");
  }
  journal_.emplace(header, bytes_max);
  write();
}

void JournalFile::record(Instant now, std::span<const Event> events) {
  if (!journal_) return;
  journal_->record(now, events);
  write();
}

void JournalFile::ordered(std::span<const Command> commands) {
  if (journal_) journal_->ordered(commands);
}

void JournalFile::close() {
  if (!journal_) return;
  journal_->close();
  write();
  if (std::fflush(file_.get()) != 0) {
    throw ConfigError(path_ + ": cannot write: " + std::strerror(errno) + "; make room for it");
  }
}

void JournalFile::write() {
  const auto bytes = journal_->pending();
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) {
    throw ConfigError(path_ + ": cannot write: " + std::strerror(errno) + "; make room for it");
  }
  journal_->clear_pending();
}

}  // namespace batchflow::sim
