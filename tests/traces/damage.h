// Damage to a file, as disks, transfers and people cause it.
#pragma once

#include <string>

#include "core/base/random.h"

namespace batchflow::test {

inline std::string damaged(std::string bytes, Random& random) {
  for (std::uint64_t n = 1 + random.below(4); n > 0 && !bytes.empty(); --n) {
    const auto at = static_cast<std::size_t>(random.below(bytes.size()));
    const auto byte = static_cast<char>(random.below(256));
    switch (random.below(4)) {
      case 0:
        bytes[at] = byte;
        break;
      case 1:
        bytes.erase(at, 1 + random.below(30));
        break;
      case 2:
        bytes.insert(at, 1 + random.below(30), byte);
        break;
      default:
        bytes.insert(at, bytes.substr(random.below(bytes.size()), random.below(40)));
    }
  }
  return bytes;
}

}  // namespace batchflow::test
