// What a service takes of the machine's memory, as it is seen from outside.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>

#include "core/types.h"

namespace batchflow::test {

inline constexpr Bytes kMib = Bytes{1} << 20;

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
  std::ifstream file("/proc/" + std::to_string(service) + "/status");
  std::string word;
  Bytes own = 0, kib = 0;
  while (file >> word) {
    if ((word == "RssAnon:" || word == "RssFile:") && file >> kib) own += kib * 1024;
  }
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
