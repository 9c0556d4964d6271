// Where results go: the one way in which programs write a file.
//
// A result is whole or it is not there. A regular file appears under its name only when all of its
// content is on disk: it is written beside its destination under a temporary name and renamed.
// `-` is standard output. What is not a regular file (a device, a pipe) is written directly, and a
// symbolic link is followed, never replaced.
#pragma once

#include <string>
#include <string_view>

namespace batchflow {

// Throws ConfigError when `path` cannot be written; nothing is left behind then, and a file that
// stood there before still stands.
void write_file_atomically(const std::string& path, std::string_view content);

// For programs that run long before they write: throws the ConfigError that
// write_file_atomically(path, ...) would throw now. Creates nothing.
void require_writable(const std::string& path);

}  // namespace batchflow
