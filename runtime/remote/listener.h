// Listens on TCP for remote jobs, producers of feeds and other nodes. It is off unless a port is
// given, and serves only a connection that shows a token. Where there are many connections, the
// oldest that has shown no token makes room for a new one.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/remote/feed_relay.h"
#include "runtime/remote/relay.h"
#include "runtime/remote/remote_options.h"

namespace batchflow::remote {

class RemoteListener {
 public:
  // Serves a connection of another node until it ends, on a thread of its own. `as` is kAgent or
  // kPeer; `from` is the address of the other side.
  using ServeNode =
      std::function<void(TcpChannel& channel, std::string_view as, const std::string& from)>;
  // Reaches the feed of that name for a producer. Any thread may call it.
  using OpenFeed = std::function<OpenedFeed(const std::string& name)>;
  // Is told what was refused, from where and why: once for each address and reason, since most
  // programs ask again and again. Any thread may call it.
  using SayRefused = std::function<void(const std::string& line)>;
  // `service` is the socket of the service to which jobs are passed on; empty: none are. Throws
  // ConfigError.
  RemoteListener(const RemoteOptions& options, std::filesystem::path service,
                 ServeNode serve_node = {}, OpenFeed open_feed = {}, SayRefused say_refused = {});
  ~RemoteListener();
  std::uint16_t port() const { return port_; }

 private:
  // A connection and its thread.
  struct Peer {
    std::thread thread;
    std::atomic<bool> over{false};  // the thread ends, and can be joined
    std::mutex mutex;
    std::unique_ptr<TcpChannel> channel;  // until there is a relay
    std::unique_ptr<Relay> relay;
    bool is_known = false;  // an agent, another node's backend, or a producer
    // It has not yet shown a token. REQUIRES: with the mutex held
    bool is_unknown() const { return channel != nullptr && !is_known; }
    void shut(std::string_view why);
  };

  void listen();
  void let_in(protocol::Descriptor socket);
  void make_room();
  void remove_ended();
  void receive(Peer& peer);
  void refuse(TcpChannel& channel, std::string_view as, std::string_view why,
              std::string_view message);
  void begin_serving(Peer& peer);
  void serve_producer(Peer& peer, const std::string& feed);

  const RemoteOptions options_;
  const std::filesystem::path service_;
  const ServeNode serve_node_;
  const OpenFeed open_feed_;
  const SayRefused say_refused_;
  const std::size_t unknown_most_;
  TlsContext tls_;
  protocol::Descriptor socket_;
  protocol::Descriptor stop_;  // an eventfd
  std::uint16_t port_ = 0;
  std::list<Peer> peers_;  // of the thread; the oldest first
  std::atomic<std::size_t> ranks_ = 0;
  std::atomic<std::size_t> producers_ = 0;
  std::atomic<std::size_t> large_frames_ = 0;  // bytes, of all ranks
  std::mutex said_mutex_;
  std::set<std::string> said_;  // by said_mutex_: the last lines of refusals
  std::thread thread_;
};

}  // namespace batchflow::remote
