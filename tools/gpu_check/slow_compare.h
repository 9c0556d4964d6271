// A reader that is late: it waits on the GPU, and then compares bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/where.h"

namespace batchflow::gpu_check {

// After `delay_ns`, adds to `differing` how many of the bytes differ. Both are aligned to 16, and
// `bytes` is a multiple of that.
void slow_compare(const std::uint8_t* read, const std::uint8_t* expected, std::size_t bytes,
                  std::uint64_t delay_ns, unsigned long long* differing, kernels::Stream stream);

}  // namespace batchflow::gpu_check
