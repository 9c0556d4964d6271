// The process at the other end of a Unix socket, and whether it may be given memory of a GPU.
//
// The descriptor of such memory lets its holder map it writable, which no seal can forbid. So it
// goes to processes of the same user alone, which could write to this one's memory anyway.
#pragma once

#include <sys/types.h>

#include <string>

#include "runtime/protocol/descriptor.h"

namespace batchflow::gpu {

struct Peer {
  pid_t process = 0;
  uid_t user = 0;
  protocol::Descriptor life;  // readable (poll) once the process has ended

  // As it was when it connected. Without `life`, the reason is in `problem`.
  static Peer at(int socket, std::string& problem);
};

// Empty, or why memory must not be shared with it: another user, or another process namespace, in
// which drivers do not take such descriptors everywhere.
std::string why_not_share(const Peer& peer);

}  // namespace batchflow::gpu
