#include "runtime/gpu/peer.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace batchflow::gpu {
namespace {

// 0: it cannot be seen.
ino_t process_namespace(const std::string& process) {
  struct stat status {};
  return stat(("/proc/" + process + "/ns/pid").c_str(), &status) == 0 ? status.st_ino : 0;
}

}  // namespace

Peer Peer::at(int socket, std::string& problem) {
  Peer peer;
  ucred found{};
  socklen_t bytes = sizeof found;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &found, &bytes) != 0) {
    problem = fmt::format("SO_PEERCRED: {}", std::strerror(errno));
    return peer;
  }
  peer.process = found.pid;
  peer.user = found.uid;
  if (found.pid > 0)
    peer.life = protocol::Descriptor(static_cast<int>(syscall(SYS_pidfd_open, found.pid, 0)));
  if (!peer.life)
    problem = found.pid > 0 ? fmt::format("pidfd_open: {}", std::strerror(errno))
                            : "the process is in a namespace that cannot be seen from here";
  return peer;
}

std::string why_not_share(const Peer& peer) {
  if (peer.user != geteuid())
    return fmt::format("the job's user is {} and the service's is {}", peer.user, geteuid());
  if (!peer.life) return "the end of the job's process cannot be seen from here";
  const ino_t here = process_namespace("self");
  const ino_t there = process_namespace(std::to_string(peer.process));
  if (here == 0 || there != here) return "the job runs in another process namespace";
  return "";
}

}  // namespace batchflow::gpu
