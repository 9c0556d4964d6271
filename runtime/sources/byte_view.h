// Bytes at places, wherever they are: what the parsers of files and of single records read from.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace batchflow {

class ByteView {
 public:
  virtual ~ByteView() = default;
  virtual Bytes size() const = 0;
  // The bytes at `offset`, fewer or none where the end is near. They stay until the next call.
  virtual std::span<const std::byte> view(std::uint64_t offset, std::size_t bytes) = 0;
};

// What it shows stays as long as the memory.
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

// A little-endian number that may lie at any address. REQUIRES: bytes has that many
template <class T>
T load(std::span<const std::byte> bytes, std::size_t at = 0) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

void append(std::vector<std::byte>& out, std::span<const std::byte> bytes);
// A number, as its bytes.
template <class T>
void append_value(std::vector<std::byte>& out, T value) {
  append(out, std::as_bytes(std::span(&value, 1)));
}

}  // namespace batchflow
