// Takes records from producers for one feed, on a socket in its folder, and tells its owner what is
// durable.
//
// Two threads: `bf-feed` has the connections and writes what comes; `bf-feed-sync` makes it durable
// meanwhile, many records at a time. A producer that breaks the rules loses its connection and
// nothing else. The engine says how to go on (engine::SourcePaced).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/base/types.h"
#include "runtime/feeds/feed_log.h"

namespace batchflow::feeds {

struct FeedStatus {
  FeedState state;
  LogCounts counts;
  std::uint32_t producers = 0;  // that are connected
  std::size_t known = 0;        // producers that ever were
  ExemplarLog::Sums exemplars;
  bool waits = false;
  std::string problem;  // that holds it up now, such as a full disk; empty: nothing
};

class FeedServer {
 public:
  using Changed = std::function<void(const FeedState&)>;

  // Listens. `changed` is called by a thread of the server, whenever more is durable, the source
  // has ended, or files have gone. Throws FeedError.
  FeedServer(std::shared_ptr<FeedLog> log, Changed changed);
  ~FeedServer();
  FeedServer(const FeedServer&) = delete;
  FeedServer& operator=(const FeedServer&) = delete;

  // From any thread.
  void pace(std::uint64_t needed_from, bool waits, std::uint64_t taken_part,
            std::span<const order::ReservoirName> reservoirs = {});
  FeedState state() const;
  FeedStatus status() const;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

// The number that stands for a producer's name in the log.
std::uint64_t producer_id(std::string_view name);

}  // namespace batchflow::feeds
