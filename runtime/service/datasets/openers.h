// Threads that open datasets. Each can be told to stop. At the end all of them are waited for, but
// within a bound: nothing ends a read from a file server that hangs.
//
// It lives on the service's thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/service/post.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::service {

class Openers {
 public:
  explicit Openers(Post post);
  // Tells all to stop. Threads that have not ended after kEndWithin are left alone, and their
  // results are forgotten.
  ~Openers();

  // Runs `work` on a thread; `work` must hold all that it uses. The function that it answers is
  // posted, and then the thread counts no more. Throws std::runtime_error if there is no thread.
  // `user`: of the job that it is for.
  using Work = std::function<std::function<void()>(const sources::StopAsked& stop)>;
  void start(std::uint64_t number, std::optional<uid_t> user, Work work);
  // The thread ends soon; its result is still posted.
  void stop(std::uint64_t number);
  // Threads that run for jobs: of all users, of one.
  std::size_t running() const;
  std::size_t running(uid_t user) const;

  static constexpr std::chrono::seconds kEndWithin{5};

 private:
  // Shared with the threads.
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    Post post;             // by mutex; empty: the service is over
    std::size_t left = 0;  // threads, by mutex
  };
  struct Opener {
    std::thread thread;
    std::optional<uid_t> user;
    std::shared_ptr<std::atomic<bool>> stops;
  };

  const std::shared_ptr<Shared> shared_;
  std::map<std::uint64_t, Opener> openers_;
};

}  // namespace batchflow::service
