#include "sim/world/journal_file.h"

namespace batchflow::world {

JournalFile::JournalFile(const std::string& path, const log::JournalHeader& header,
                         const engine::Catalogues& catalogues, Bytes bytes_max)
    : file_(path) {
  if (file_.is_wanted()) journal_.emplace(header, catalogues, bytes_max);
}

void JournalFile::record_events(Instant now, std::span<const engine::Event> events) {
  if (!journal_) return;
  journal_->record_events(now, events);
  write();
}

void JournalFile::record_commands(std::span<const engine::Command> commands) {
  if (journal_) journal_->record_commands(commands);
}

void JournalFile::close() {
  if (!file_.has_begun()) return;
  journal_->close();
  write();
  file_.close();
}

void JournalFile::write() {
  file_.write(journal_->pending());
  journal_->clear_pending();
}

}  // namespace batchflow::world
