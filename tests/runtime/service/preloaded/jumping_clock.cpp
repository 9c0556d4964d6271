// For LD_PRELOAD: the clock of the machine is set again and again, by up to ten years forth or
// back. The clocks that no one sets go on as they do.
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

namespace {

// Another one every twentieth of a second.
std::int64_t offset_s() {
  timespec now{};
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  const auto step = static_cast<std::uint64_t>(now.tv_sec) * 20 +
                    static_cast<std::uint64_t>(now.tv_nsec) / 50'000'000;
  const std::uint64_t drawn = step * 0x9e3779b97f4a7c15u >> 32;
  return static_cast<std::int64_t>(drawn % 630'720'000) - 315'360'000;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int failed = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (failed == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    time->tv_sec += offset_s();
  return failed;
}

__attribute__((visibility("default"))) int gettimeofday(timeval* time, void*) noexcept {
  timespec now{};
  const int failed = clock_gettime(CLOCK_REALTIME, &now);
  *time = {now.tv_sec, now.tv_nsec / 1000};
  return failed;
}

__attribute__((visibility("default"))) time_t time(time_t* to) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (to != nullptr) *to = now.tv_sec;
  return now.tv_sec;
}
}
