// What the tags of the storage engine's results mean: a read of the backend and a sample of it,
// read or, with the highest bit, written to the spill file.
#pragma once

#include <cstdint>

namespace batchflow::service {

inline constexpr unsigned kSampleBits = 24;
inline constexpr std::uint64_t kSpillWrite = std::uint64_t{1} << 63;

}  // namespace batchflow::service
