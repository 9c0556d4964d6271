// The hash that names a dataset version: core's hash over words, for bytes of any length.
//
// Each run of bytes is preceded by its length, so that what is added never runs together. It tells
// datasets apart; it does not keep out somebody who makes two of them collide on purpose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "core/random.h"
#include "core/types.h"

namespace batchflow {

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

}  // namespace batchflow
