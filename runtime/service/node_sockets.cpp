#include "runtime/service/node_sockets.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/protocol/descriptor.h"

namespace batchflow::service {
namespace {

// The process that listened may have been killed, and a child that it was starting may still hold
// its socket.
bool is_alive(const protocol::Descriptor& connected) {
  ucred listener{};
  socklen_t size = sizeof listener;
  return getsockopt(connected.get(), SOL_SOCKET, SO_PEERCRED, &listener, &size) != 0 ||
         listener.pid == 0 || kill(listener.pid, 0) == 0 || errno != ESRCH;
}

}  // namespace

std::string socket_path_problem(const std::filesystem::path& path) {
  constexpr std::size_t kMost = sizeof sockaddr_un{}.sun_path - 1;
  if (path.string().size() <= kMost) return {};
  return fmt::format("a socket's path has at most {} bytes", kMost);
}

protocol::Descriptor listen_at(const std::filesystem::path& path) {
  const std::string name = path.string();
  const auto fail = [&](const std::string& why) -> protocol::Descriptor {
    throw ConfigError(fmt::format("{}: {}; choose another path (--socket)", name, why));
  };
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (const std::string problem = socket_path_problem(path); !problem.empty()) return fail(problem);
  std::memcpy(address.sun_path, name.data(), name.size());
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) return fail(fmt::format("its folder cannot be made: {}", error.message()));
  protocol::Descriptor made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made) return fail(std::generic_category().message(errno));
  if (connect(made.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      is_alive(made))
    return fail("another service listens there already; end it first");
  made = protocol::Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  struct stat status {};
  if (lstat(name.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) return fail("it is there, and is no socket");
    unlink(name.c_str());
  }
  if (bind(made.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(made.get(), 512) != 0)
    return fail(std::generic_category().message(errno));
  // The folder decides which users may connect, and their own rights what they may read.
  chmod(name.c_str(), 0666);
  return made;
}

SocketFile SocketFile::at(const std::filesystem::path& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

void SocketFile::remove(const std::filesystem::path& path) const {
  const SocketFile now = at(path);
  if (inode != 0 && now.device == device && now.inode == inode) unlink(path.c_str());
}

// The process has the lock; its children do not.
protocol::Descriptor lock_state(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "lock";
  std::string problem;
  protocol::Descriptor file = protocol::open_regular(path.string(), O_RDWR | O_CREAT, problem);
  if (!file)
    throw ConfigError(fmt::format("{}: cannot be written: {}; choose another path (--state)",
                                  path.string(), problem));
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (fcntl(file.get(), F_SETLK, &whole) != 0 && (errno == EACCES || errno == EAGAIN))
    throw ConfigError(fmt::format(
        "{}: another service keeps its indices and logs there; end it first, or choose another "
        "place (--state)",
        folder.string()));
  return file;
}

protocol::Descriptor accept_at(const protocol::Descriptor& listening) {
  if (BF_FAILPOINT("service.accept")) {
    errno = EMFILE;
    return {};
  }
  return protocol::Descriptor(
      accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

void notify_manager(std::string_view state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (!path || (path[0] != '/' && path[0] != '@')) return;
  const std::size_t length = std::strlen(path);
  if (length >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path, length);
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';  // an abstract one
  const protocol::Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return;
  // It does not wait for a manager that does not listen.
  (void)sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
               reinterpret_cast<const sockaddr*>(&address),
               static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
}

}  // namespace batchflow::service
