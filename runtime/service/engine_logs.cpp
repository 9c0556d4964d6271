#include "runtime/service/engine_logs.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "fmt/format.h"

namespace batchflow {
namespace {

void open_or_throw(LogFile& file, const std::filesystem::path& path) {
  if (!file.open(path))
    throw ConfigError(fmt::format("{}: cannot be written: {}; choose another place (--state)",
                                  path.string(), std::generic_category().message(errno)));
}

}  // namespace

bool LogFile::open(const std::filesystem::path& path) {
  file_ = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  return static_cast<bool>(file_);
}

bool LogFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    bytes_ += static_cast<Bytes>(written);
  }
  return true;
}

bool LogFile::sync() const {
  return fdatasync(file_.get()) == 0;
}

EngineLogs::EngineLogs(const NodeConfig& config, Say say)
    : folder_(config.state),
      say_(std::move(say)),
      journal_wanted_(config.journal),
      promise_log_(config.engine.promise_log_bytes_max) {
  open_or_throw(promise_file_, folder_ / "promises");
  if (!config.journal) return;
  JournalHeader header;
  header.seed = config.engine.seed;
  journal_ = std::make_unique<Journal>(header, config.engine.journal_bytes_max);
  open_or_throw(journal_file_, folder_ / "journal");
}

void EngineLogs::stepping(Instant now, std::span<const Event> events) {
  if (!journal_) return;
  journal_->record(now, events);
  journal_events_ += events.size();
}

void EngineLogs::stepped(std::span<const Command> commands, std::span<const Promise> promises) {
  if (journal_) {
    journal_->ordered(commands);
    write_journal();
  }
  for (const Promise& promise : promises) promise_log_.add(promise);
  write_promises();
}

JournalState EngineLogs::journal() const {
  return {journal_wanted_,
          journal_wanted_ && !(journal_ && journal_->recorded()),
          (folder_ / "journal").string(),
          journal_file_.bytes(),
          journal_ ? journal_->steps() : 0,
          journal_events_};
}

std::string EngineLogs::flush_journal() {
  if (!journal_) return "no journal is kept; start the service with --journal";
  if (journal_file_.sync()) return "";
  return fmt::format("the journal cannot be flushed: {}", std::generic_category().message(errno));
}

void EngineLogs::write_journal() {
  if (journal_->pending().empty()) return;
  if (!journal_file_.append(journal_->pending())) {
    say_("the journal cannot be written; it ends here");
    journal_.reset();
    return;
  }
  journal_->clear_pending();
}

void EngineLogs::write_promises() {
  if (promise_log_.snapshot_due()) {
    promise_log_.begin_anew();
    LogFile anew;
    const std::filesystem::path path = folder_ / "promises";
    const std::filesystem::path beside = folder_ / "promises.new";
    if (anew.open(beside) && anew.append(promise_log_.pending()) &&
        rename(beside.c_str(), path.c_str()) == 0)
      promise_file_ = std::move(anew);
  } else if (!promise_log_.pending().empty()) {
    promise_file_.append(promise_log_.pending());
  }
  promise_log_.clear_pending();
}

}  // namespace batchflow
