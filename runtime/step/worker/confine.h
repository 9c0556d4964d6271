// Takes from a worker process of a step all that it could do beside computing.
#pragma once

#include <cstdint>
#include <string>

namespace batchflow {

// From here on this process cannot write to any file, start or signal other processes, open
// sockets, gain privileges, or outlive `parent`; of memory it gets `data_bytes`. Where it was root
// it is nobody. False, with the reason: it must not go on.
bool confine(std::int32_t parent, std::uint64_t data_bytes, std::string& problem);

}  // namespace batchflow
