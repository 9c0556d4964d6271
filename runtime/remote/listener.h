// Listens for remote jobs: off unless a port is given, and then for those alone who know a token.
// Whoever has not shown one yet makes room for who comes.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/remote/relay.h"
#include "runtime/remote/remote_options.h"

namespace batchflow {

class RemoteListener {
 public:
  // `service` is the socket of the service that jobs are passed on to. Throws ConfigError.
  RemoteListener(const RemoteOptions& options, std::filesystem::path service);
  ~RemoteListener();
  std::uint16_t port() const { return port_; }

 private:
  // A connection, from its first byte on.
  struct Guest {
    std::thread thread;
    std::atomic<bool> over{false};
    std::mutex mutex;
    std::unique_ptr<Stream> stream;  // until there is a relay
    std::unique_ptr<Relay> relay;
    bool is_stranger() {
      const std::lock_guard lock(mutex);
      return stream != nullptr;
    }
    void shut(std::string_view why);
  };

  void listen();
  void let_in(Descriptor socket);
  void make_room();
  void clear_away();
  void receive(Guest& guest);

  const RemoteOptions options_;
  const std::filesystem::path service_;
  const std::size_t strangers_most_;
  TlsContext tls_;
  Descriptor socket_;
  Descriptor stop_;  // an eventfd
  std::uint16_t port_ = 0;
  std::list<Guest> guests_;  // of the thread; who came first stands first
  std::atomic<std::size_t> ranks_ = 0;
  std::atomic<std::size_t> large_frames_ = 0;  // bytes, of all ranks
  std::thread thread_;
};

}  // namespace batchflow
