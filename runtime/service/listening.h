// The socket that clients of this node find the service at.
#pragma once

#include <cstdint>
#include <filesystem>

#include "runtime/protocol/descriptor.h"

namespace batchflow::service {

// Bound and listening. A file that nobody listens to any more is a leftover, and replaced. Throws
// ConfigError.
protocol::Descriptor listen_at(const std::filesystem::path& path);

// Which file a socket has, so that it alone is removed: another service may listen there since.
struct SocketFile {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  static SocketFile at(const std::filesystem::path& path);
  void remove(const std::filesystem::path& path) const;
};

// The folder is this process's until it ends, or the descriptor does. Throws ConfigError where it
// is another one's.
protocol::Descriptor lock_state(const std::filesystem::path& folder);

// The next connection; none, with why in errno, when nobody waits or this process can have no more.
protocol::Descriptor accept_at(const protocol::Descriptor& listening);

}  // namespace batchflow::service
