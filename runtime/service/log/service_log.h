// What the service says to people: a line for each thing, with time and level, as text or as JSON.
//
// Lines that clients can cause again and again are bounded: for each kind and user, some lines a
// second are written, and then how many others there were.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace batchflow::service {

enum class LogLevel : std::uint8_t { info, warning, error };
enum class LogForm : std::uint8_t { text, json };

struct LogLine {
  // A line that the service itself causes.
  LogLine(std::string what, LogLevel how = LogLevel::info) : text(std::move(what)), level(how) {}
  // A line that a client may have caused; `of_kind` is a constant. `by_user` is empty if the user
  // is not known.
  LogLine(std::string what, LogLevel how, std::string_view of_kind,
          std::optional<uid_t> by_user = {})
      : text(std::move(what)), level(how), kind(of_kind), user(by_user) {}

  std::string text;
  LogLevel level;
  std::string_view kind = {};
  std::optional<uid_t> user = {};
};

using Say = std::function<void(const LogLine& line)>;

class ServiceLog {
 public:
  using Write = std::function<void(const std::string& line)>;
  using Clock = std::chrono::system_clock;
  static constexpr std::uint32_t kLinesMost = 10;  // of each kind and user, between two ticks

  explicit ServiceLog(LogForm form, std::function<Clock::time_point()> now = Clock::now)
      : form_(form), now_(std::move(now)) {}

  // Sets where lines go from now on. Earlier lines go there first.
  void write_to(Write write);
  void say(const LogLine& line);
  // Called once a second: says how many lines were left out.
  void tick();

 private:
  struct LineCount {
    std::uint32_t lines = 0;
    std::uint64_t left_out = 0;
  };
  std::string formed(const LogLine& line) const;
  void write(const LogLine& line);

  const LogForm form_;
  const std::function<Clock::time_point()> now_;
  Write write_;
  std::vector<std::string> early_;
  std::map<std::pair<std::string_view, std::optional<uid_t>>, LineCount> counts_;
};

}  // namespace batchflow::service
