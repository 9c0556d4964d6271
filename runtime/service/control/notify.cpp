#include "runtime/service/control/notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "runtime/protocol/descriptor.h"

namespace batchflow::service {

void notify_manager(std::string_view state) {
  const char* const place = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (!place || (place[0] != '/' && place[0] != '@')) return;
  const std::size_t length = std::strlen(place);
  if (length >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, place, length);
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';  // an abstract one
  const protocol::Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return;
  // It does not wait for a manager that does not listen.
  (void)sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
               reinterpret_cast<const sockaddr*>(&address),
               static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
}

}  // namespace batchflow::service
