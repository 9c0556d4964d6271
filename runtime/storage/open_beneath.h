// Opens a file below a root, never one outside it, and waits for nothing but the file system.
#pragma once

#include <linux/openat2.h>

#include "runtime/storage/read_engine.h"

namespace batchflow::storage {

// What openat2 is called with, by io_uring or by a thread. It has O_NONBLOCK, since opening a FIFO
// would wait for a writer.
open_how how_beneath(bool direct, bool follows_links = true);

struct Opened {
  int fd = -1;
  int error = 0;  // errno; then there is no fd
};
// EINVAL: `direct` was asked for, and the file cannot be opened with O_DIRECT.
Opened open_beneath(int root, const char* path, bool direct, bool follows_links = true);

// Checks that `fd` is a regular file, and satisfies `guard` where that is not null. Answers 0 or
// errno. It clears O_NONBLOCK: with it io_uring answers EAGAIN on file systems that cannot read at
// once.
int admit(int fd, bool direct, const ReadGuard* guard = nullptr);

}  // namespace batchflow::storage
