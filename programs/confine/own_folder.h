// A folder in memory that a process has for itself, and the only place where it can write.
#pragma once

#include <cstdint>
#include <string>

namespace batchflow::confine {

// From here on this process finds at `place`, which is a folder that others leave empty, a folder
// of its own with room for `bytes`. It can change nothing else that has a path: all other files are
// read-only, and devices and pipes cannot be opened for writing, but for /dev/null. Programs that
// it becomes have the same folder and the same bounds, and confine() must forbid them to undo the
// mounts. The folder is gone when the process is. False, with the reason in `problem`: the kernel
// or a container refuses it, and nothing has changed. REQUIRES: one thread
bool make_own_folder(const char* place, std::uint64_t bytes, std::string& problem);

}  // namespace batchflow::confine
