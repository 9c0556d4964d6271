// The hash that names a dataset version: core's hash of words, for bytes of any length.
//
// The length of each run of bytes is added before it, so that two runs are not taken for one. The
// hash tells datasets apart; it does not resist an attack that makes two of them collide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "core/base/random.h"
#include "core/base/types.h"

namespace batchflow::sources {

class ContentHash {
 public:
  void add(std::uint64_t word) { hash_ = mix((hash_ + kGolden) ^ mix(word + kGolden)); }
  void add(std::span<const std::byte> bytes) {
    add(std::uint64_t{bytes.size()});
    while (!bytes.empty()) {
      std::uint64_t word = 0;
      const std::size_t part = bytes.size() < sizeof word ? bytes.size() : sizeof word;
      std::memcpy(&word, bytes.data(), part);
      add(word);
      bytes = bytes.subspan(part);
    }
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  Digest digest() const { return hash_; }

 private:
  std::uint64_t hash_ = 0;
};

}  // namespace batchflow::sources
