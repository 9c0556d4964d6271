// A producer of records: the client's end of a feed's socket (docs/live.md).
//
// It keeps what is not acknowledged, and sends it again where the service went away meanwhile. So
// an acknowledged record is durable, and no record is taken twice.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/client/batchflow.h"
#include "runtime/client/feed_connection.h"
#include "runtime/client/held_batches.h"
#include "runtime/protocol/feed_wire.h"

namespace batchflow::client {

class FeedProducer {
 public:
  static bf_status open(const bf_feed_options& options, std::unique_ptr<FeedProducer>& out);
  ~FeedProducer();
  // A child of fork() has a copy, and its connection is the parent's.
  bool is_of_parent() const { return generation_ != process_generation(); }

  // Takes the record. It waits while too much is not acknowledged, or the feed says so.
  bf_status put(const bf_record& record);
  // Leaves sequences out: no record has them.
  bf_status skip() {
    ++sequence_;
    return BF_OK;
  }
  void skip_before(std::uint64_t sequence) {
    if (sequence > sequence_) sequence_ = sequence - 1;
  }
  // Sends what is left, and waits until all is acknowledged.
  bf_status flush(double seconds);
  // Says that no record will follow, from any producer.
  bf_status end();
  void info(bf_feed_info& info) const;
  // What became of its records since it was opened, at least of all that are acknowledged. None:
  // the service does not say, or another one has the feed since then.
  std::optional<protocol::FeedCounts> counts() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Sent {
    std::uint64_t sequence = 0;
    std::vector<std::byte> frame;
  };

  bf_status connect(Clock::time_point deadline);
  // Sends and receives until `done`; the answers of the feed are taken meanwhile.
  template <class Done>
  bf_status until(Clock::time_point deadline, Done done);
  bool connect_once(Clock::time_point deadline, std::string& problem);
  bool exchange(int wait_ms);
  bool take_answers(std::string& problem);
  void take_counts(std::span<const std::byte> answer);
  void lose();
  Clock::time_point deadline() const;

  std::string folder_, name_, schema_;  // of the feed: its folder, or its address
  bool waits_ = true;
  std::uint64_t instance_ = 0;
  std::uint32_t generation_ = process_generation();
  Clock::duration timeout_{};
  std::unique_ptr<FeedConnection> socket_;
  bool is_greeted_ = false;
  std::string refused_;  // why the feed takes nothing from it
  std::vector<std::byte> in_;
  std::deque<Sent> unacked_;  // oldest first
  std::size_t unacked_bytes_ = 0;
  std::size_t next_ = 0;          // of unacked_: the first that is not sent as a whole
  std::size_t sent_of_next_ = 0;  // bytes of it
  std::size_t unsent_ = 0;        // bytes that were put since the last exchange
  Clock::time_point exchanged_at_{};
  std::vector<std::byte> first_;  // a hello, sent before all else
  std::uint64_t sequence_ = 0;    // of the last record put
  std::uint64_t acked_ = 0;
  std::uint32_t record_most_ = 0;
  std::optional<protocol::FeedCounts> counts_before_, counts_now_;  // when it was opened, and now
  bool told_to_wait_ = false;
  bool ends_ = false;       // the end is the last of unacked_
  bool has_ended_ = false;  // and that is durable
};

}  // namespace batchflow::client

struct bf_feed {
  std::unique_ptr<batchflow::client::FeedProducer> producer;
};
