// Which numbers generations have, so that relaxed jobs of one seed group differ in their order
// where they share no stream, and meet at once where they share one again.
//
// A shared stream counts its generations from 0. Each job in a stream of its own counts from a
// number of its own. A job's generations only grow, or it would be given the same draws again. So
// numbers come in eras: the lower half of an era is for shared streams, and the upper half for
// streams of one job. A job that comes from a stream of its own to a shared one begins the next
// era. Jobs that come together thus begin it together, whatever numbers they had.
#pragma once

#include <cstdint>

namespace batchflow::order {

inline constexpr std::uint64_t kHalfEra = std::uint64_t{1} << 39;

constexpr bool is_of_own_stream(std::uint64_t generation) {
  return (generation & kHalfEra) != 0;
}

// The number just below the first generation of a job in a stream of its own. `generation` is the
// last that the job had in a shared stream, or 0. `chance` differs by job. Half of the upper half
// of the era is left for epochs to come.
constexpr std::uint64_t before_own_stream(std::uint64_t generation, std::uint64_t chance) {
  return (generation | (kHalfEra - 1)) + 1 + (chance >> 26);
}

// The number just below the first generation of a shared stream, for a job that comes from a stream
// of its own, where `generation` was its last.
constexpr std::uint64_t before_shared_stream(std::uint64_t generation) {
  return generation | (2 * kHalfEra - 1);
}

}  // namespace batchflow::order
