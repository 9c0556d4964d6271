#include "policies/plugin/failures.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace batchflow::plugin {
namespace {

std::atomic<bool> any_failure{false};
std::mutex failures_mutex;
std::vector<Failure>& failures() {
  static std::vector<Failure> all;
  return all;
}

std::function<void(Failure&)>& failure_listener() {
  static std::function<void(Failure&)> tell;
  return tell;
}

}  // namespace

void report(Failure failure) {
  const std::lock_guard lock(failures_mutex);
  if (failure_listener()) failure_listener()(failure);
  failures().push_back(std::move(failure));
  any_failure.store(true, std::memory_order_release);
}

void tell_of_failures(std::function<void(Failure&)> tell) {
  const std::lock_guard lock(failures_mutex);
  failure_listener() = std::move(tell);
}

std::vector<Failure> take_failures() {
  if (!any_failure.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(failures_mutex);
  any_failure.store(false, std::memory_order_relaxed);
  return std::exchange(failures(), {});
}

void check_failures() {
  const std::vector<Failure> all = take_failures();
  if (all.empty()) return;
  std::string text;
  for (const Failure& one : all)
    text += fmt::format("{}policy {}: {}", text.empty() ? "" : "; ", one.policy, one.why);
  throw std::runtime_error(text);
}

}  // namespace batchflow::plugin
