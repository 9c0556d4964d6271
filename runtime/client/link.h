// One connection of a loader: its socket, its rings, and what it tells the service through the up
// ring. It lives until the loader has another and the last batch that lies in the service's memory
// has been released, which any thread may do.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "core/event.h"
#include "runtime/protocol/channel.h"
#include "runtime/protocol/companion.h"
#include "runtime/protocol/records.h"
#include "runtime/protocol/ring_files.h"

namespace batchflow {

class Link {
 public:
  // `proxy`: what stands for a service on another machine, or null.
  Link(Channel channel, Rings rings, Descriptor doorbell, std::unique_ptr<Companion> proxy);
  ~Link();

  Channel& channel() { return channel_; }  // of the loader's thread
  const Rings& rings() const { return rings_; }

  void want(std::uint32_t credits);
  // Goes with what is told next: waking the service for it alone would cost as much as the rest of
  // a batch. Whoever finds no batch tells it.
  void consumed(std::uint64_t step, std::uint64_t compute_ns, std::uint64_t wait_ns);
  void tell();
  void hold_in_place() { in_place_.fetch_add(1); }
  void released_in_place(std::uint64_t step);
  void released_copied(std::uint64_t step);
  void unmapped(std::uint64_t slab);
  // False: the service has not yet read earlier ones.
  bool report(std::span<const Score> scores);

  std::uint32_t held_in_place() const { return in_place_.load(); }
  // The service is gone, or no longer to be believed: nothing more is told.
  bool is_lost() const { return lost_.load(); }
  void lose() { lost_.store(true); }

 private:
  void say(std::span<const UpRecord> records);
  bool write(std::span<const UpRecord> records);
  void publish();
  void publish_release();

  using Clock = std::chrono::steady_clock;

  std::unique_ptr<Companion> proxy_;
  Channel channel_;
  Rings rings_;
  Descriptor doorbell_;
  std::mutex mutex_;
  RingWriter up_;  // by mutex_, as the next two
  bool deferred_ = false;
  Clock::time_point published_at_{};
  std::vector<std::byte> scratch_;
  std::atomic<std::uint32_t> in_place_ = 0;
  std::atomic<bool> lost_ = false;
  const std::uint32_t generation_;
};

}  // namespace batchflow
