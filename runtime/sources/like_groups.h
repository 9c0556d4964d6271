// Sequences in groups that cost about the same (order rules, section 10, Rows).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace batchflow::sources {

// The items of each group: `rows` of them, until fewer are left; as many groups as that takes. It
// takes O(n log n) time. REQUIRES: rows > 0
std::vector<std::vector<std::uint32_t>> groups_of_like_cost(std::span<const std::uint64_t> costs,
                                                            std::uint32_t rows);

}  // namespace batchflow::sources
