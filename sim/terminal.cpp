#include "sim/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

namespace batchflow::sim {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int) {
  interrupted.store(true, std::memory_order_relaxed);
}

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void check_interrupted() {
  if (interrupted.load(std::memory_order_relaxed)) throw Interrupted();
}

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)), visible_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (visible_ && painted_ != std::chrono::steady_clock::time_point{}) {
    std::fputs("\r\033[K", stderr);
  }
}

void ProgressBar::show(double done) {
  constexpr auto kBetween = std::chrono::milliseconds(100);
  constexpr std::size_t kWidth = 30;
  if (!visible_) return;
  const std::unique_lock lock(painting_, std::try_to_lock);
  if (!lock) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - painted_ < kBetween) return;
  painted_ = now;
  std::string line;
  if (done < 0) {
    line = fmt::format("\r{} ...\033[K", label_);
  } else {
    const double shown = std::clamp(done, 0.0, 1.0);
    const auto full = static_cast<std::size_t>(shown * kWidth);
    line = fmt::format("\r{} [{}{}] {:3.0f}%\033[K", label_, std::string(full, '#'),
                       std::string(kWidth - full, '.'), 100 * shown);
  }
  std::fputs(line.c_str(), stderr);
}

}  // namespace batchflow::sim
