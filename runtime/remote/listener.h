// Listens for remote jobs: off unless a port is given, and then for those alone who know a token.
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
    std::unique_ptr<Relay> relay;
    Stream* stream = nullptr;  // until there is a relay
  };

  void listen();
  void receive(Guest& guest, Descriptor socket);
  void clear_away();

  const RemoteOptions options_;
  const std::filesystem::path service_;
  TlsContext tls_;
  Descriptor socket_;
  Descriptor stop_;  // an eventfd
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::list<Guest> guests_;
  std::thread thread_;
};

}  // namespace batchflow
