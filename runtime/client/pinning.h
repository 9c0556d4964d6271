// Memory that a GPU of this process reads directly: pinned by CUDA's driver, if the program uses
// that. The library itself neither links nor loads the driver.
#pragma once

#include <cstddef>
#include <mutex>
#include <span>
#include <string>

namespace batchflow::client {

class Pinning {
 public:
  Pinning() = default;
  Pinning(const Pinning&) = delete;
  Pinning& operator=(const Pinning&) = delete;
  // Unpins, but not in a child of the process that has pinned.
  ~Pinning();

  // Any thread may call it. Pins memory that is only read, for all devices. `device` is one that
  // the program uses. A second call does nothing. Answers why it cannot be done, or nothing.
  std::string pin(std::span<const std::byte> memory, int device);

 private:
  std::mutex mutex_;
  const std::byte* pinned_ = nullptr;
  int device_ = 0;
  unsigned owner_ = 0;
};

}  // namespace batchflow::client
