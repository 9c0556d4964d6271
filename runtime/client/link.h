// One connection of a loader: its socket, its rings, and the records that it writes to the up ring.
// It lives until the loader has another connection, and the last batch that lies in this service's
// memory has been released. Any thread may release batches.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "core/engine/event.h"
#include "runtime/protocol/channel.h"
#include "runtime/protocol/records.h"
#include "runtime/protocol/ring_files.h"

namespace batchflow::client {

class Link {
 public:
  // `proxy`: the local end of a connection to another machine, or null.
  Link(protocol::Channel channel, protocol::Rings rings, protocol::Descriptor doorbell,
       std::unique_ptr<protocol::Companion> proxy);
  ~Link();

  protocol::Channel& channel() { return channel_; }  // for the loader's thread
  const protocol::Rings& rings() const { return rings_; }

  void request_batches(std::uint32_t credits);
  // Writes the record and publishes it with the next one: to wake the service for it alone would
  // cost as much as the rest of a batch. A loader that finds no batch calls send_pending().
  void consumed(std::uint64_t step, std::uint64_t compute_ns, std::uint64_t wait_ns);
  void send_pending();
  void hold_in_place() { in_place_.fetch_add(1); }
  void released_in_place(std::uint64_t step);
  void released_copied(std::uint64_t step);
  void unmapped(std::uint64_t slab);
  // So many steps in which batches were given again took so long.
  void ideal(std::uint64_t steps, std::uint64_t compute_ns);
  // False: there is no room yet, since the service has not read earlier records.
  bool report(std::span<const engine::Score> scores);
  // The same for a part of a buffer; see write_exemplars.
  bool report(std::span<const SampleId> exemplars, std::uint32_t first, bool more);
  bool report(const order::MixtureChange& change);
  bool report(const protocol::Described& described);
  bool report_losses(std::span<const float> losses);
  bool ask(std::span<const SampleId> keys);

  std::uint32_t held_in_place() const { return in_place_.load(); }
  // The service is gone, or has written what cannot be right: nothing more is sent to it.
  bool is_lost() const { return lost_.load(); }
  void lose() { lost_.store(true); }

 private:
  void send(std::span<const protocol::JobRecord> records);
  bool write(std::span<const protocol::JobRecord> records);
  void publish();
  void publish_release();
  bool send_report();

  using Clock = std::chrono::steady_clock;

  std::unique_ptr<protocol::Companion> proxy_;
  protocol::Channel channel_;
  protocol::Rings rings_;
  protocol::Descriptor doorbell_;
  std::mutex mutex_;
  // With mutex_ held alone:
  protocol::RingWriter writer_;
  std::uint32_t deferred_ = 0;  // releases that were written and wait for the next record
  std::uint32_t deferred_most_ = 1;
  Clock::time_point published_at_{};
  std::vector<std::byte> scratch_;
  std::atomic<std::uint32_t> in_place_ = 0;
  std::atomic<bool> lost_ = false;  // nothing is written to the service any more
  const std::uint32_t generation_;
};

}  // namespace batchflow::client
