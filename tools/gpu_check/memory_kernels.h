// Kernels that the checks of memory need.
#pragma once

#include <cstddef>
#include <cstdint>

namespace batchflow::gpu_check {

// Writes 0xEE to all bytes.
void write_all(std::byte* memory, std::size_t bytes, void* stream);
// Does nothing for so long, in one thread.
void wait_on_device(std::uint64_t nanoseconds, void* stream);
// Reads all bytes and writes their sum, a number of 8 bytes.
void sum_all(const std::byte* memory, std::size_t bytes, std::uint64_t* sum, void* stream);

}  // namespace batchflow::gpu_check
