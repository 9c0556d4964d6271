// Unmaps slabs that are no longer used, on a thread of its own: 32 MiB take some 10 ms, which the
// service's thread has better use for.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace batchflow::service {

class SharedSlab;

class Unmapper {
 public:
  Unmapper();
  ~Unmapper();  // when all that was added is unmapped
  Unmapper(const Unmapper&) = delete;
  void add(std::unique_ptr<SharedSlab> slab);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<SharedSlab>> slabs_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace batchflow::service
