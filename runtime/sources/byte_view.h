// Bytes by offset, of a file or of memory. The parsers of files and of single records read from it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/types.h"

namespace batchflow::sources {

class ByteView {
 public:
  virtual ~ByteView() = default;
  virtual Bytes size() const = 0;
  // The bytes at `offset`; near the end there are fewer, or none. They stay until the next call.
  virtual std::span<const std::byte> view(std::uint64_t offset, std::size_t bytes) = 0;
};

// Its bytes stay as long as the memory.
class MemoryView final : public ByteView {
 public:
  explicit MemoryView(std::span<const std::byte> memory) : memory_(memory) {}
  Bytes size() const override { return memory_.size(); }
  std::span<const std::byte> view(std::uint64_t offset, std::size_t bytes) override {
    if (offset >= memory_.size()) return {};
    const auto at = static_cast<std::size_t>(offset);
    return memory_.subspan(at, std::min(bytes, memory_.size() - at));
  }

 private:
  std::span<const std::byte> memory_;
};

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// A little-endian number at any address. REQUIRES: `bytes` holds all of it
template <class T>
T load(std::span<const std::byte> bytes, std::size_t at = 0) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Not inlined: where GCC 12 sees how large the vector is, it warns of what cannot happen.
[[gnu::noinline]] inline void append(std::vector<std::byte>& out,
                                     std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}
// Appends the bytes of a number.
template <class T>
void append_value(std::vector<std::byte>& out, T value) {
  append(out, std::as_bytes(std::span(&value, 1)));
}

}  // namespace batchflow::sources
