// Opening a file below a root without leaving it, and without waiting for anything but the file
// system.
#pragma once

#include <linux/openat2.h>

#include "runtime/storage/read_engine.h"

namespace batchflow {

// For openat2, by the ring or by a thread. O_NONBLOCK, lest a FIFO waits for its writer.
open_how how_beneath(bool direct, bool follows_links = true);

struct Opened {
  int fd = -1;
  int error = 0;  // errno; then there is no fd
};
// EINVAL when `direct` and the file has no O_DIRECT.
Opened open_beneath(int root, const char* path, bool direct, bool follows_links = true);

// Whether what was opened so is a file to read, and what `guard` wants where it is not null, by 0
// or errno. Then O_NONBLOCK is taken off: with it a ring answers EAGAIN on file systems that know
// no other answer to "not at once".
int admit(int fd, bool direct, const ReadGuard* guard = nullptr);

}  // namespace batchflow
