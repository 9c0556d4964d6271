#include "runtime/service/log/service_log.h"

#include <array>

#include "fmt/chrono.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "runtime/service/jobs/users.h"

namespace batchflow::service {
namespace {

constexpr std::array<const char*, 3> kLevels = {"info", "warning", "error"};

// In the form of RFC 3339, in UTC, to the millisecond.
std::string text_of(ServiceLog::Clock::time_point time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(time - seconds);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(ServiceLog::Clock::to_time_t(seconds)), rest.count());
}

}  // namespace

void ServiceLog::write_to(Write write) {
  write_ = std::move(write);
  for (const std::string& line : std::exchange(early_, {})) write_(line);
}

void ServiceLog::say(const LogLine& line) {
  if (!line.kind.empty()) {
    LineCount& count = counts_[{line.kind, line.user}];
    if (count.lines >= kLinesMost) {
      ++count.left_out;
      return;
    }
    ++count.lines;
  }
  write(line);
}

void ServiceLog::tick() {
  for (const auto& [message, count] : std::exchange(counts_, {})) {
    const auto& [kind, user] = message;
    if (count.left_out == 0) continue;
    write({fmt::format("{} more lines of kind {}{} were left out", count.left_out, kind,
                       user ? fmt::format(", by user {},", user_name(*user)) : ""),
           LogLevel::warning, kind, user});
  }
}

std::string ServiceLog::formed(const LogLine& line) const {
  const std::string time = text_of(now_());
  const char* const level = kLevels[static_cast<std::size_t>(line.level)];
  if (form_ == LogForm::text) return fmt::format("{} {} batchflowd: {}", time, level, line.text);
  nlohmann::ordered_json object = {{"time", time}, {"level", level}, {"text", line.text}};
  if (!line.kind.empty()) object["kind"] = line.kind;
  if (line.user) object["user"] = user_name(*line.user);
  // In ASCII alone: nothing in it moves a cursor.
  return object.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

void ServiceLog::write(const LogLine& line) {
  if (write_) {
    write_(formed(line));
  } else {
    early_.push_back(formed(line));
  }
}

}  // namespace batchflow::service
