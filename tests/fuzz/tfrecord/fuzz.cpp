// Records: the input itself, and the input as a payload with the right checksums, which reaches
// tf.train.Example.
#include "core/base/check.h"
#include "runtime/sources/byte_view.h"
#include "runtime/sources/record.h"
#include "runtime/sources/tfrecord.h"

namespace batchflow::test {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  sources::RecordParts parts;
  parts.find(sources::RecordKind::example, bytes, {});

  std::vector<std::byte> record;
  sources::append_value(record, std::uint64_t{size});
  sources::append_value(record, sources::masked_crc32c(record));
  sources::append(record, bytes);
  sources::append_value(record, sources::masked_crc32c(bytes));
  const bool found = parts.find(sources::RecordKind::example, record, {});
  BF_CHECK(found || parts.problem() != "the checksum of the TFRecord does not fit");
  Bytes total = 0;
  std::uint64_t sum = 0;
  for (const sources::Part& part : parts.parts()) {
    BF_CHECK(part.bytes.size() % batch::element_bytes(part.type) == 0);
    total += part.bytes.size();
    for (const std::byte byte : part.bytes) sum += std::to_integer<std::uint64_t>(byte);
  }
  // A number takes at least one byte there and eight here; a string may be counted twice.
  BF_CHECK(total <= 8 * size && sum <= 255 * total);
  sources::stored_label(sources::RecordKind::example, parts);
  return 0;
}

}  // namespace batchflow::test
