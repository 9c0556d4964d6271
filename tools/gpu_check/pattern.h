// Bytes that follow from where they lie: made on the GPU, and found again where a kernel put them.
#pragma once

#include <cstdint>

namespace batchflow::gpu_check {

void make_bytes(std::uint8_t* bytes, std::uint64_t count);
// Adds to `wrong` how many bytes of such a picture in planes, mirrored, differ.
void count_wrong(const std::uint8_t* out, std::uint64_t width, std::uint64_t height,
                 unsigned long long* wrong);

}  // namespace batchflow::gpu_check
