#include "runtime/protocol/feed_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>

namespace batchflow::protocol {

sockaddr_un feed_address(const Descriptor& folder) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("/proc/self/fd/{}/{}", folder.get(), kFeedSocket);
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

Descriptor connect_to_feed(const std::string& folder, std::string& problem) {
  const Descriptor opened(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (opened) {
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const sockaddr_un address = feed_address(opened);
    if (socket &&
        ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
      return socket;
  }
  problem = std::generic_category().message(errno);
  return {};
}

std::ptrdiff_t bytes_moved(ssize_t count) {
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
  return count > 0 ? count : -1;
}

}  // namespace batchflow::protocol
