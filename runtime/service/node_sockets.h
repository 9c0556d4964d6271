// The sockets of this node: the one at which clients find the service, and the service manager's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/protocol/descriptor.h"

namespace batchflow::service {

// What is wrong with the path of a socket, on whatever machine; empty: nothing. The reader of node
// files asks it too, so that a check refuses what a start would.
std::string socket_path_problem(const std::filesystem::path& path);

// A bound and listening socket. A leftover file, at which no process listens any more, is replaced.
// Throws ConfigError.
protocol::Descriptor listen_at(const std::filesystem::path& path);

// Identifies the file of a socket, so that only this file is removed: another service may listen at
// the same path by now.
struct SocketFile {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  static SocketFile at(const std::filesystem::path& path);
  void remove(const std::filesystem::path& path) const;
};

// Where clients find the service, as long as this lives. Clients that come while nothing accepts
// wait.
class ListeningSocket {
 public:
  // As listen_at().
  explicit ListeningSocket(std::filesystem::path path)
      : path_(std::move(path)), socket_(listen_at(path_)), file_(SocketFile::at(path_)) {}
  ~ListeningSocket() { file_.remove(path_); }
  ListeningSocket(const ListeningSocket&) = delete;
  const protocol::Descriptor& socket() const { return socket_; }

 private:
  const std::filesystem::path path_;
  const protocol::Descriptor socket_;
  const SocketFile file_;
};

// The folder belongs to this process until the process or the descriptor ends. Throws ConfigError
// when it belongs to another process.
protocol::Descriptor lock_state(const std::filesystem::path& folder);

// The next connection. None, with the reason in errno: no client waits, or this process can have no
// more.
protocol::Descriptor accept_at(const protocol::Descriptor& listening);

// Reports to the service manager with systemd's protocol: a datagram to $NOTIFY_SOCKET. Without
// one, nothing happens.
// Lines of `READY=1`, `STATUS=...`, `STOPPING=1`, `WATCHDOG=1`.
void notify_manager(std::string_view state);

}  // namespace batchflow::service
