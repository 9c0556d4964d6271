// Writes results to files: the only way in which programs write a file.
//
// A result is whole or it does not exist. A regular file appears under its name only when all of
// its content is on disk: it is written beside its destination under a temporary name and renamed.
// `-` is standard output. A file that is not regular (a device, a pipe) is written directly, and a
// symbolic link is followed, never replaced.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace batchflow::output {

// A result could not be written although its path is valid: the disk is full, the reader of a pipe
// is gone.
class OutputError : public std::runtime_error {
 public:
  OutputError(const std::string& what, int error) : std::runtime_error(what), error_(error) {}
  int error() const { return error_; }  // as errno

 private:
  int error_;
};

// Content that is too large for memory writes itself to a sink piece by piece.
using Sink = std::function<void(std::string_view piece)>;
using Content = std::function<void(const Sink& sink)>;
std::string text_of(const Content& content);

// Throws ConfigError when `path` cannot be written to, OutputError when writing fails. Then nothing
// is left behind, and a file that was there before is still there. `on_signal` is called when a
// signal ends a wait; if it does not throw, the wait goes on.
void write_file_atomically(const std::string& path, const Content& content,
                           const std::function<void()>& on_signal = {});
void write_file_atomically(const std::string& path, std::string_view content,
                           const std::function<void()>& on_signal = {});

// For programs that run long before they write: throws the ConfigError that
// write_file_atomically(path, ...) would throw now. Creates nothing.
void require_writable(const std::string& path);

bool is_standard_output(const std::string& path);  // `-`, or another name of it

// Whether both names mean one file, or will once they are written. Devices and pipes may be shared.
bool same_file(const std::string& a, const std::string& b);

}  // namespace batchflow::output
