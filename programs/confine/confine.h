// Confines a process that runs the code of others, so that it can compute and do nothing else.
#pragma once

#include <cstdint>
#include <string>

namespace batchflow::confine {

// What is confined. A step is a library, or a program that is still to be started, such as an
// interpreter. A program keeps the service's user, to which its files belong, and may become
// another program. A policy is a library that needs no threads, and shares no more memory than it
// does already.
enum class Confined { library, program, policy };

struct Limits {
  std::int32_t parent = 0;       // the process that this one does not outlive
  std::uint64_t data_bytes = 0;  // of memory; 0: without limit
  std::uint64_t stack_bytes = 8 << 20;
  int last_file = 2;             // open files with greater numbers are closed
  std::uint64_t file_bytes = 0;  // how large it may make a file; 0: it writes none
  // It may make, change and remove files where it can. REQUIRES: make_own_folder() (own_folder.h)
  // has left it one folder for that
  bool has_own_folder = false;
};

// From here on this process cannot write to a file unless it has it open, start or signal other
// processes, open sockets, gain privileges, or exceed its limits. If it was root, it becomes the
// user nobody. False, with the reason in `problem`: the process must not go on.
bool confine(Confined what, const Limits& limits, std::string& problem);

}  // namespace batchflow::confine
