#include "runtime/failpoint/failpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "core/base/config_value.h"
#include "core/base/random.h"

// The linker's names for both ends of the section; null in a program without any failpoint.
extern "C" {
[[gnu::weak,
  gnu::visibility("hidden")]] extern batchflow::failpoint::Failpoint* __start_bf_failpoints[];
[[gnu::weak,
  gnu::visibility("hidden")]] extern batchflow::failpoint::Failpoint* __stop_bf_failpoints[];
}

namespace batchflow::failpoint {

std::atomic<bool> failpoints_on{false};

namespace {

using Action = Failpoint::Action;

std::atomic<std::uint64_t> seed{0};

struct Report {
  std::mutex mutex;
  std::string file;
};
// It is never destroyed: a failpoint may be reached at the very end of a process.
Report& report() {
  static auto* const only = new Report;
  return *only;
}

std::span<Failpoint* const> failpoints() {
  return {__start_bf_failpoints, __stop_bf_failpoints};
}

struct Rule {
  Action action = Action::off;
  std::uint64_t threshold = std::numeric_limits<std::uint64_t>::max();
  std::int64_t count = std::numeric_limits<std::int64_t>::max();
  std::uint32_t delay_ms = 10;
};

[[noreturn]] void refuse(std::string_view entry, std::string_view problem) {
  throw ConfigError(fmt::format("BATCHFLOW_FAILPOINTS: `{}`: {}", entry, problem));
}

std::string_view cut(std::string_view& text, char at) {
  const std::size_t end = text.find(at);
  const std::string_view head = text.substr(0, end);
  text = end == text.npos ? std::string_view() : text.substr(end + 1);
  return head;
}

Rule parse_rule(std::string_view entry, std::string_view text) {
  Rule rule;
  std::string_view action = cut(text, ':');
  constexpr std::pair<std::string_view, Action> kActions[] = {
      {"off", Action::off},       {"count", Action::count}, {"fail", Action::fail},
      {"short", Action::shorten}, {"delay", Action::delay}, {"kill", Action::kill}};
  if (action.starts_with("delay-")) {
    const auto ms = parse_unsigned(action.substr(6));
    if (!ms || *ms > 3'600'000) refuse(entry, "write milliseconds, as delay-500");
    rule.delay_ms = static_cast<std::uint32_t>(*ms);
    action = "delay";
  }
  const auto found = std::find_if(std::begin(kActions), std::end(kActions),
                                  [&](const auto& known) { return known.first == action; });
  if (found == std::end(kActions)) {
    refuse(entry, "no such action; write fail, short, delay, kill, count or off");
  }
  rule.action = found->second;
  if (const std::string_view word = cut(text, ':'); !word.empty()) {
    const auto probability = parse_number(word);
    if (!probability || *probability < 0 || *probability > 1) {
      refuse(entry, "write a probability from 0 to 1, as fail:0.01");
    }
    if (*probability == 0) rule.count = 0;
    if (*probability < 1) rule.threshold = static_cast<std::uint64_t>(*probability * 0x1.0p64);
  }
  if (!text.empty()) {
    const auto count = parse_unsigned(text);
    if (!count || *count > 1'000'000'000'000) {
      refuse(entry, "write how often it acts at most, as fail:1:5");
    }
    rule.count = std::min(rule.count, static_cast<std::int64_t>(*count));
  }
  return rule;
}

void check_known(std::string_view entry, std::string_view name) {
  std::vector<std::string_view> known;
  for (const Failpoint* point : failpoints()) known.push_back(point->name);
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  const std::string near = nearest_name(name, known);
  refuse(entry, near.empty() ? "this program has no such failpoint" : "did you mean " + near + "?");
}

// Counts, and answers whether the failpoint acts this time.
bool acts_now(Failpoint& point, std::uint64_t& draw) {
  const std::uint64_t n = point.reached.fetch_add(1, std::memory_order_relaxed);
  const Action action = point.action.load(std::memory_order_relaxed);
  if (action == Action::off || action == Action::count) return false;
  std::uint64_t key = hash(seed.load(std::memory_order_relaxed), n);
  for (const char* c = point.name; *c != 0; ++c) key = hash(key, *c);
  if (key > point.threshold.load(std::memory_order_relaxed)) return false;
  if (point.left.fetch_sub(1, std::memory_order_relaxed) <= 0) {
    point.left.store(0, std::memory_order_relaxed);
    return false;
  }
  point.acted.fetch_add(1, std::memory_order_relaxed);
  draw = hash(key, 1);
  return true;
}

// The part that both macros share.
Action act(Failpoint& point, std::uint64_t& draw) {
  if (!acts_now(point, draw)) return Action::off;
  const Action action = point.action.load(std::memory_order_relaxed);
  if (action == Action::kill) ::kill(::getpid(), SIGKILL);
  if (action == Action::delay) {
    std::this_thread::sleep_for(std::chrono::milliseconds(point.delay_ms.load()));
  }
  return action;
}

}  // namespace

bool reach_failpoint(Failpoint& point) {
  std::uint64_t draw = 0;
  const Action action = act(point, draw);
  return action == Action::fail || action == Action::shorten;
}

Bytes reach_failpoint(Failpoint& point, Bytes bytes) {
  std::uint64_t draw = 0;
  const Action action = act(point, draw);
  if ((action != Action::shorten && action != Action::fail) || bytes < 2) return bytes;
  return 1 + Random(draw).below(bytes - 1);
}

void configure_failpoints(std::string_view text) {
  std::map<std::string_view, Rule> rules;
  std::optional<Rule> for_all;
  std::uint64_t new_seed = 0;
  std::string_view report_to;
  while (!text.empty()) {
    const std::string_view entry = cut(text, ',');
    if (entry.empty()) continue;
    if (entry.find('=') == entry.npos) refuse(entry, "write name=action, as storage.open=fail");
    std::string_view value = entry;
    const std::string_view name = cut(value, '=');
    if (name == "seed") {
      const auto number = parse_unsigned(value);
      if (!number) refuse(entry, "write a number");
      new_seed = *number;
    } else if (name == "report") {
      report_to = value;
    } else if (name == "*") {
      for_all = parse_rule(entry, value);
    } else {
      check_known(entry, name);
      rules[name] = parse_rule(entry, value);
    }
  }

  failpoints_on.store(false);
  seed = new_seed;
  {
    const std::lock_guard lock(report().mutex);
    report().file = report_to;
  }
  for (Failpoint* point : failpoints()) {
    const auto found = rules.find(point->name);
    const Rule rule = found != rules.end() ? found->second : for_all.value_or(Rule{});
    point->action = rule.action;
    point->threshold = rule.threshold;
    point->left = rule.count;
    point->delay_ms = rule.delay_ms;
    point->reached = 0;
    point->acted = 0;
  }
  failpoints_on.store(for_all || !rules.empty());
}

std::vector<FailpointCount> failpoint_counts() {
  std::map<std::string_view, FailpointCount> sums;
  for (const Failpoint* point : failpoints()) {
    FailpointCount& sum = sums[point->name];
    sum.name = point->name;
    sum.reached += point->reached.load(std::memory_order_relaxed);
    sum.acted += point->acted.load(std::memory_order_relaxed);
  }
  std::vector<FailpointCount> all;
  for (const auto& [name, sum] : sums) all.push_back(sum);
  return all;
}

void report_failpoints() {
  const std::lock_guard lock(report().mutex);
  if (report().file.empty()) return;
  std::string lines;
  for (const FailpointCount& one : failpoint_counts())
    lines += fmt::format("{} {} {} {}\n", getpid(), one.name, one.reached, one.acted);
  const int file = open(report().file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = write(file, lines.data(), lines.size());
  close(file);
}

}  // namespace batchflow::failpoint
