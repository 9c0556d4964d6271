// A window of jobs on 128 GPUs, replayed at the default grain and batch by batch.
#pragma once

#include <cstdint>

namespace batchflow::bench {

// Prints both, as means over so many seeds; false if they are farther apart than documented.
bool compare_grains(std::uint64_t seeds);

}  // namespace batchflow::bench
