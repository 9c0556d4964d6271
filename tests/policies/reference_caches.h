// The rules of eviction written down as plainly as possible, with searches where the real policies
// have structures: slow and obviously right. The real policies are compared with them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace batchflow::test {

struct Request {
  std::uint32_t item;
  std::uint64_t size;
  std::uint64_t next;  // index of the next request of the item; kNever
};
inline constexpr std::uint64_t kNever = UINT64_MAX - 1;

struct Missed {
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const Missed&, const Missed&) = default;
};

// The policies that have a reference.
const std::vector<std::string>& reference_names();
Missed reference_misses(const std::string& policy, const std::vector<Request>& trace,
                        std::uint64_t capacity);

}  // namespace batchflow::test
