// Packed files: the input itself, the input as a header with the right checksum, and as a record.
#include "core/check.h"
#include "core/frame_log.h"
#include "runtime/sources/packed.h"
#include "runtime/sources/record.h"

using namespace batchflow;

namespace {

void check_header(std::span<const std::byte> bytes) {
  MemoryView view(bytes);
  PackedHeader header;
  Bytes length = 0;
  if (read_packed_header(view, header, length).empty())
    BF_CHECK(header.fields.problem().empty() && length <= bytes.size());
  PackedFooter footer;
  if (read_packed_footer(view, footer).empty())
    BF_CHECK(footer.index + footer.records * kPackedEntry + kPackedFooter == bytes.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check_header(bytes);

  std::vector<std::byte> header;
  append(header, as_bytes(kPackedMagic));
  append_value(header, kPackedVersion);
  append_value(header, static_cast<std::uint32_t>(size));
  append_value(header, crc32c(bytes, crc32c(header)));
  append(header, bytes);
  check_header(header);

  const BatchSpec spec{{{"label", ElementType::i64, {}, false},
                        {"words", ElementType::u16, {9, 2}, true},
                        {"bytes", ElementType::u8, {1 << 20}, true}}};
  std::vector<std::byte> record;
  append_value(record, std::uint64_t{size});
  append_value(record, packed_checksum(size, bytes));
  append(record, bytes);
  RecordParts parts;
  Bytes total = 0;
  if (parts.find(RecordKind::packed, record, spec)) {
    for (const Part& part : parts.parts()) total += part.bytes.size();
    BF_CHECK(parts.parts().size() == 3 && total + 16 == size);
  }
  return 0;
}
