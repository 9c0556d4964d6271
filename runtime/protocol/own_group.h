// How to spawn a process that belongs to the service, and not to its terminal.
#pragma once

#include <signal.h>
#include <spawn.h>

namespace batchflow::protocol {

// Attributes of posix_spawn: a process group of its own, which a signal from the service's terminal
// does not reach, with no signal blocked or ignored.
class OwnGroup {
 public:
  OwnGroup() {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
  }
  OwnGroup(const OwnGroup&) = delete;
  ~OwnGroup() { posix_spawnattr_destroy(&attributes_); }
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

}  // namespace batchflow::protocol
