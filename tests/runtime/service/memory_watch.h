// What a service takes of the machine's memory, as the system counts it from outside.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

#include "core/base/types.h"

namespace batchflow::test {

inline constexpr Bytes kMib = Bytes{1} << 20;

// Sanitizers take memory of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kMemoryIsMeasured = false;
#else
inline constexpr bool kMemoryIsMeasured = true;
#endif

// Beside what `memory` bounds: the program and its libraries as far as they are in memory, some
// 20 MiB; pieces below 1 MiB that were freed, which the allocator keeps for each thread; and what a
// picture's decoder is taken to need less exactly than its buffers.
inline constexpr Bytes kMemoryBeside = 64 * kMib;

// The sum of these lines of a process' status.
inline Bytes status_lines(pid_t process, std::initializer_list<std::string_view> names) {
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  std::string word;
  Bytes all = 0, kib = 0;
  while (file >> word) {
    const bool is_meant = std::find(names.begin(), names.end(), word) != names.end();
    if (is_meant && file >> kib) all += kib * 1024;
  }
  return all;
}

// The most of its own and of shared pages that it ever had mapped at once.
inline Bytes highest_memory_of(pid_t service) {
  return status_lines(service, {"VmHWM:"});
}

// Pages of memory files by their inodes: the service's slabs, which jobs map, too.
inline void add_slabs(const std::string& process, std::map<std::uint64_t, Bytes>& slabs) {
  std::ifstream maps("/proc/" + process + "/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:batchflow ") == std::string::npos) continue;
    std::istringstream words(line);
    std::string range, rights, offset, device;
    std::uint64_t inode = 0;
    words >> range >> rights >> offset >> device >> inode;
    const std::size_t dash = range.find('-');
    slabs[inode] =
        std::stoull(range.substr(dash + 1), nullptr, 16) - std::stoull(range, nullptr, 16);
  }
}

// What the service has of its own, and all slabs that it or a job of this process has mapped.
inline Bytes memory_of(pid_t service) {
  Bytes own = status_lines(service, {"RssAnon:", "RssFile:"});
  std::map<std::uint64_t, Bytes> slabs;
  add_slabs(std::to_string(service), slabs);
  add_slabs("self", slabs);
  for (const auto& [inode, bytes] : slabs) own += bytes;
  return own;
}

// The most of it, looked at a hundred times a second.
class MemoryWatch {
 public:
  explicit MemoryWatch(pid_t service)
      : thread_([this, service] {
          while (!ending_) {
            most_ = std::max<Bytes>(most_, memory_of(service));
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          }
        }) {}
  ~MemoryWatch() { end(); }
  Bytes end() {
    ending_ = true;
    if (thread_.joinable()) thread_.join();
    return most_;
  }

 private:
  std::atomic<bool> ending_{false};
  std::atomic<Bytes> most_{0};
  std::thread thread_;
};

}  // namespace batchflow::test
