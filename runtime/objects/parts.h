// Memory in several parts, which are filled one behind the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "core/base/types.h"

namespace batchflow::objects {

// What is left to fill. A copy goes on from the same byte.
class Parts {
 public:
  Parts() = default;
  explicit Parts(std::span<const std::span<std::byte>> parts) : parts_(parts) {
    for (const std::span<std::byte> part : parts) left_ += part.size();
    skip(0);
  }

  Bytes left() const { return left_; }
  // Where the next bytes go, as far as these lie together. REQUIRES: left() > 0
  std::span<std::byte> next() const { return parts_.front().subspan(filled_); }
  // REQUIRES: bytes <= left()
  void skip(Bytes bytes) {
    left_ -= bytes;
    filled_ += bytes;
    while (!parts_.empty() && filled_ >= parts_.front().size()) {
      filled_ -= parts_.front().size();
      parts_ = parts_.subspan(1);
    }
  }
  // REQUIRES: bytes.size() <= left()
  void put(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::span<std::byte> to = next();
      const std::size_t some = std::min(to.size(), bytes.size());
      std::memcpy(to.data(), bytes.data(), some);
      bytes = bytes.subspan(some);
      skip(some);
    }
  }

 private:
  std::span<const std::span<std::byte>> parts_;
  std::size_t filled_ = 0;  // of the first
  Bytes left_ = 0;
};

}  // namespace batchflow::objects
