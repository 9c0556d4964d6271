#include "runtime/service/log/recorder.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "programs/config/engine_settings.h"
#include "runtime/service/service_version.h"

namespace batchflow::service {

void Recorder::open(const std::filesystem::path& path, const engine::EngineConfig& config,
                    const engine::Catalogues& catalogues) {
  std::error_code ignored;
  // To find out why a service died, its user often starts it again first.
  std::filesystem::rename(path, path.string() + ".before", ignored);
  file_.open_or_throw(path);
  state_.is_kept = true;
  state_.path = path.string();
  journal_.emplace(
      log::JournalHeader{config.seed, config::text_of(config), std::string(kServiceVersion)},
      catalogues, config.journal_bytes_max);
  write();
}

void Recorder::record_events(Instant now, std::span<const engine::Event> events) {
  ++steps_;
  events_ += events.size();
  if (!recorded()) return;
  journal_->record_events(now, events);
  write();
  if (say_if_ended()) return;
  state_.steps = steps_;
  state_.events = events_;
}

void Recorder::record_commands(std::span<const engine::Command> commands) {
  digest_.add(commands);
  if (recorded()) journal_->record_commands(commands);
}

bool Recorder::say_if_ended() {
  if (recorded()) return false;
  if (journal_)
    problem_ = fmt::format(
        "{}: ends at its bound of bytes (journal_bytes_max); the service goes on", state_.path);
  return true;
}

void Recorder::record_policies(std::span<const std::byte> description) {
  if (!recorded()) return;
  journal_->record_policies(description);
  write();
  say_if_ended();
}

void Recorder::record_answers(std::span<const std::byte> answers) {
  if (!recorded() || answers.empty()) return;
  journal_->record_answers(answers);
  write();
  say_if_ended();
}

void Recorder::close() {
  if (!recorded()) return;
  journal_->close();
  write();
}

JournalState Recorder::state() const {
  JournalState now = state_;
  now.has_ended = now.is_kept && !recorded();
  now.bytes = file_.bytes();
  return now;
}

std::string Recorder::flush() {
  if (!state_.is_kept) return "no journal is kept; start the service with --journal";
  if (file_.sync()) return "";
  return fmt::format("the journal cannot be flushed: {}", std::generic_category().message(errno));
}

void Recorder::write() {
  if (!file_.append(journal_->pending())) {
    problem_ = fmt::format("{}: cannot be written: {}; it ends here, and the service goes on",
                           state_.path, std::generic_category().message(errno));
    journal_.reset();
    return;
  }
  journal_->clear_pending();
}

std::string Recorder::take_problem() {
  return std::exchange(problem_, {});
}

}  // namespace batchflow::service
