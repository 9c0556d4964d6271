// The frame of a TFRecord: length (8 bytes), its masked CRC-32C (4), payload, its masked CRC (4).
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

}  // namespace batchflow::sources
