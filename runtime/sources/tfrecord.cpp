#include "runtime/sources/tfrecord.h"

#include "core/log/frame_log.h"
#include "runtime/sources/byte_view.h"

namespace batchflow::sources {

std::uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  const std::uint32_t crc = log::crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

std::optional<Bytes> tfrecord_length(std::span<const std::byte> head) {
  if (load<std::uint32_t>(head, 8) != masked_crc32c(head.first(8))) return std::nullopt;
  return load<std::uint64_t>(head);
}

std::optional<std::span<const std::byte>> tfrecord_payload(std::span<const std::byte> record) {
  if (record.size() < kTfRecordHead + kTfRecordTail) return std::nullopt;
  const auto payload = record.subspan(kTfRecordHead, record.size() - kTfRecordHead - kTfRecordTail);
  if (tfrecord_length(record.first(kTfRecordHead)) != payload.size()) return std::nullopt;
  const auto stored = load<std::uint32_t>(record, record.size() - kTfRecordTail);
  if (stored != masked_crc32c(payload)) return std::nullopt;
  return payload;
}

}  // namespace batchflow::sources
