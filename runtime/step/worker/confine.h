// Takes from a worker process of a step everything that it could do beside computing.
#pragma once

#include <cstdint>
#include <string>

namespace batchflow::step {

// What a step is: a library, or a program that is still to be started, such as an interpreter. A
// program keeps the service's user, who owns its files, and may become another program.
enum class Confined { library, program };

// From here on this process cannot write to any file, start or signal other processes, open
// sockets, gain privileges, or outlive `parent`; it gets `data_bytes` of memory. If it was root, it
// becomes the user nobody. False, with the reason in `problem`: it must not go on.
bool confine(Confined what, std::int32_t parent, std::uint64_t data_bytes, std::string& problem);

}  // namespace batchflow::step
