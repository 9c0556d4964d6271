// Which of the sorted scores the quartiles lie between.
#pragma once

#include <cstdint>

#include "kernels/importance.h"

namespace batchflow::kernels {

inline constexpr int kQuartiles = 3;
inline constexpr int kRanks = 2 * kQuartiles;  // for each the score below it, and that above

BF_ANYWHERE inline std::uint64_t rank_of(int rank, std::uint64_t samples) {
  const std::uint64_t quarters = (samples - 1) * static_cast<std::uint64_t>(rank / 2 + 1);
  const std::uint64_t below = quarters / 4;
  return rank % 2 == 0 || below + 1 >= samples ? below : below + 1;
}
BF_ANYWHERE inline float quartile(int which, std::uint64_t samples, float below, float above) {
  const double share =
      static_cast<double>((samples - 1) * static_cast<std::uint64_t>(which + 1) % 4) / 4;
  return static_cast<float>(static_cast<double>(below) +
                            (static_cast<double>(above) - static_cast<double>(below)) * share);
}

}  // namespace batchflow::kernels
