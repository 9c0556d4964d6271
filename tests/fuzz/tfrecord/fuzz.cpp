// Records: the input itself, and the input as a payload with the right checksums, which reaches
// tf.train.Example.
#include "core/check.h"
#include "runtime/sources/byte_view.h"
#include "runtime/sources/record.h"
#include "runtime/sources/tfrecord.h"

using namespace batchflow;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  RecordParts parts;
  parts.find(RecordKind::example, bytes, {});

  std::vector<std::byte> record;
  append_value(record, std::uint64_t{size});
  append_value(record, masked_crc32c(record));
  append(record, bytes);
  append_value(record, masked_crc32c(bytes));
  const bool found = parts.find(RecordKind::example, record, {});
  BF_CHECK(found || parts.problem() != "the checksum of the TFRecord does not fit");
  Bytes total = 0;
  std::uint64_t sum = 0;
  for (const Part& part : parts.parts()) {
    BF_CHECK(part.bytes.size() % element_bytes(part.type) == 0);
    total += part.bytes.size();
    for (const std::byte byte : part.bytes) sum += std::to_integer<std::uint64_t>(byte);
  }
  // A number takes at least one byte there and eight here; a string may be counted twice.
  BF_CHECK(total <= 8 * size && sum <= 255 * total);
  stored_label(RecordKind::example, parts);
  return 0;
}
