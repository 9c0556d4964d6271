// The connections of this machine's clients: accepted, watched, and listened to.
#pragma once

#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/types.h"
#include "fmt/format.h"
#include "runtime/service/connection.h"
#include "runtime/service/service.h"

namespace batchflow::service {

class ServiceConnections final : public ConnectionHost {
 public:
  explicit ServiceConnections(Service::Parts& parts);

  // Accepts clients from now on.
  void begin();
  std::size_t size() const { return open_.size(); }
  // Since when there is no connection; without meaning while there is one.
  Instant idle_since() const { return idle_since_; }
  // Watches the doorbells of ranks that have been admitted.
  void watch_new();
  // A message of a local rank or of one on another node, but for its greeting.
  bool take_message(Peer& peer, const std::string& type, std::string_view frame,
                    std::vector<protocol::Descriptor> descriptors, std::string& problem);

 private:
  void accept();
  // The process is out of descriptors or memory. The clients that wait will still be there when
  // there are some again. To try again at once would keep a core busy meanwhile.
  void accept_later();
  void on_end(Connection& connection) override;
  bool on_unfinished(Connection& connection, std::int64_t change) override;
  void on_doorbell(Connection& connection) override;
  bool on_frame(Connection& connection, std::string_view frame,
                std::vector<protocol::Descriptor> descriptors, std::string& problem) override;

  Service::Parts& parts_;
  boost::asio::posix::stream_descriptor acceptor_;
  boost::asio::steady_timer accept_timer_;
  std::map<const Connection*, std::shared_ptr<Connection>> open_;
  std::set<std::shared_ptr<Connection>> unwatched_;  // they have asked to join
  Instant idle_since_{};
  // Names this start, in the welcome. No client of today reads it.
  const std::string instance_ =
      fmt::format("{}-{}", getpid(), std::chrono::system_clock::now().time_since_epoch().count());
};

}  // namespace batchflow::service
