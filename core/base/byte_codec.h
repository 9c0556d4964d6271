// Bytes in and out of the compact forms core writes: little-endian numbers, variable-length counts.
//
// The reader takes bytes from any source. It never reads beyond their end. After the first failure
// it returns only zeros and empty lists, and ok() is false. Check left() before you allocate: it
// bounds what a count may claim.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace batchflow {

class ByteWriter {
 public:
  explicit ByteWriter(std::vector<std::byte>& out) : out_(out) {}

  void u8(std::uint8_t value) { out_.push_back(static_cast<std::byte>(value)); }
  void u64(std::uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) u8(static_cast<std::uint8_t>(value >> shift));
  }
  // Seven bits a byte, the lowest first; the high bit says that more follow.
  void count(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) u8(static_cast<std::uint8_t>(value | 0x80));
    u8(static_cast<std::uint8_t>(value));
  }
  void bytes(std::span<const std::uint8_t> values) {
    for (const std::uint8_t value : values) u8(value);
  }

 private:
  std::vector<std::byte>& out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> in) : in_(in) {}

  bool ok() const { return ok_; }
  bool at_end() const { return in_.empty(); }
  std::size_t left() const { return in_.size(); }
  void fail() {
    ok_ = false;
    in_ = {};
  }

  std::uint8_t u8() {
    if (in_.empty()) fail();
    if (!ok_) return 0;
    const auto value = static_cast<std::uint8_t>(in_.front());
    in_ = in_.subspan(1);
    return value;
  }
  std::uint64_t u64() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 8) value |= std::uint64_t{u8()} << shift;
    return ok_ ? value : 0;
  }
  // Only the shortest form of a number is taken, so that equal values have equal bytes.
  std::uint64_t count() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && ok_; shift += 7) {
      const std::uint8_t byte = u8();
      const std::uint64_t bits = byte & 0x7f;
      if (bits << shift >> shift != bits || (byte == 0 && shift > 0)) break;
      value |= bits << shift;
      if (byte < 0x80) return ok_ ? value : 0;
    }
    fail();
    return 0;
  }
  // A count of at most `most`.
  std::uint64_t count(std::uint64_t most) {
    const std::uint64_t value = count();
    if (value <= most) return value;
    fail();
    return 0;
  }
  std::uint32_t count32() { return static_cast<std::uint32_t>(count(UINT32_MAX)); }
  std::vector<std::uint8_t> bytes(std::uint64_t size) {
    if (size > in_.size()) fail();
    std::vector<std::uint8_t> values;
    if (!ok_) return values;
    const auto part = in_.first(static_cast<std::size_t>(size));
    for (const std::byte byte : part) values.push_back(static_cast<std::uint8_t>(byte));
    in_ = in_.subspan(part.size());
    return values;
  }

 private:
  std::span<const std::byte> in_;
  bool ok_ = true;
};

}  // namespace batchflow
