// Copies between the host and a device in one direction, by a thread of its own. Their order is
// that of runtime/gpu/copy_queue.h.
//
// All use one stream, whatever their urgency. With a stream for each urgency, an engine was seen to
// stay with one stream as long as there was something on it, while an urgent copy on another waited
// for a second. The thread asks for the end of what is in flight every few microseconds rather than
// wait for it, so that an urgent copy begins at once. While nothing is to be copied it sleeps.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/gpu/copy_queue.h"

namespace batchflow::gpu {

class Copies {
 public:
  // Throws GpuError. The device must outlive it.
  Copies(Device& device, Direction direction, CopySettings settings = {});
  // Copies that have not begun fail; those in flight end.
  ~Copies();
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  // Any thread may call it, `done` too. On a lost device the copy fails.
  void add(Copy copy);
  // Copies, and waits until the bytes are there. Throws GpuError.
  void copy(std::vector<Piece> pieces, Urgency urgency = Urgency::usual);

 private:
  void run();
  // False: there is nothing to do any more.
  bool take_added();
  bool begin_next();
  bool confirm();
  void report();
  void lose(const std::string& problem);

  // Of the thread.
  const std::unique_ptr<CopyLane> lane_;
  CopyQueue queue_;
  // What other threads have added. The thread holds the mutex only to take it, and never while it
  // asks the device: otherwise it would have the mutex again before another thread is awake.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Copy> added_;
  std::string lost_;     // why nothing is copied any more
  bool ending_ = false;  // the thread is to end
  std::thread thread_;
};

}  // namespace batchflow::gpu
