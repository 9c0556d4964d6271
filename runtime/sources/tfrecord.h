// What a TFRecord file holds: frames of length (8 bytes), its masked CRC-32C (4), payload and its
// masked CRC (4); and in the payloads the wire format of protocol buffers, as far as
// tf.train.Example needs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/base/types.h"

namespace batchflow::sources {

inline constexpr std::size_t kTfRecordHead = 12;
inline constexpr std::size_t kTfRecordTail = 4;

// TensorFlow stores checksums in this form, so that no checksum is computed over another.
std::uint32_t masked_crc32c(std::span<const std::byte> bytes);

// The length of the payload; none where its checksum does not fit.
// REQUIRES: head has kTfRecordHead bytes
std::optional<Bytes> tfrecord_length(std::span<const std::byte> head);

// The payload of a whole record; none where the record is damaged.
std::optional<std::span<const std::byte>> tfrecord_payload(std::span<const std::byte> record);

// Reads fields in the wire format. It never reads beyond its end. After a field that does not fit,
// ok() is false and no more fields follow.
class WireReader {
 public:
  enum Type : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  explicit WireReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  // Moves to the next field; false at the end and where it is damaged.
  bool next();
  bool ok() const { return ok_; }

  std::uint64_t field() const { return field_; }
  std::uint8_t type() const { return type_; }
  // The value of the field: number() for kVarint, bytes() for all other types.
  std::uint64_t number() const { return number_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  // Whether this is field number `field` and holds bytes.
  bool is(std::uint64_t field) const { return field_ == field && type_ == kBytes; }

  // Takes a number from the front of `bytes`; false where there is none.
  static bool take_varint(std::span<const std::byte>& bytes, std::uint64_t& value);

 private:
  std::span<const std::byte> rest_;
  std::uint64_t field_ = 0;
  std::uint64_t number_ = 0;
  std::span<const std::byte> bytes_;
  std::uint8_t type_ = 0;
  bool ok_ = true;  // what was read so far makes sense
};

inline bool WireReader::take_varint(std::span<const std::byte>& bytes, std::uint64_t& value) {
  value = 0;
  for (std::size_t i = 0; i < bytes.size() && i < 10; ++i) {
    const auto byte = std::to_integer<std::uint64_t>(bytes[i]);
    value |= (byte & 0x7f) << (7 * i);
    if (byte >= 0x80) continue;
    bytes = bytes.subspan(i + 1);
    return true;
  }
  return false;
}

inline bool WireReader::next() {
  if (!ok_ || rest_.empty()) return false;
  std::uint64_t tag = 0;
  std::uint64_t length = 0;
  ok_ = take_varint(rest_, tag);
  type_ = tag & 7;
  field_ = tag >> 3;
  if (type_ == kVarint) return ok_ = ok_ && take_varint(rest_, number_);
  if (type_ == kFixed64) {
    length = 8;
  } else if (type_ == kFixed32) {
    length = 4;
  } else {
    ok_ = ok_ && type_ == kBytes && take_varint(rest_, length);
  }
  ok_ = ok_ && length <= rest_.size();
  if (!ok_) return false;
  bytes_ = rest_.first(static_cast<std::size_t>(length));
  rest_ = rest_.subspan(bytes_.size());
  return true;
}

}  // namespace batchflow::sources
