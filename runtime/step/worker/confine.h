// Takes from a worker process of a step all that it could do beside computing.
#pragma once

#include <cstdint>
#include <string>

namespace batchflow::step {

// What a step is: a library, or a program that is still to be started, as an interpreter. The
// latter keeps the service's user, whose files it is made of, and may become another program.
enum class Confined { library, program };

// From here on this process cannot write to any file, start or signal other processes, open
// sockets, gain privileges, or outlive `parent`; of memory it gets `data_bytes`. Where it was root
// it is nobody. False, with the reason: it must not go on.
bool confine(Confined what, std::int32_t parent, std::uint64_t data_bytes, std::string& problem);

}  // namespace batchflow::step
