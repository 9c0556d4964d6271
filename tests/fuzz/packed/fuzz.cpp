// Packed files: the input itself, the input as a header with the right checksum, and as a record.
#include "core/base/check.h"
#include "core/log/frame_log.h"
#include "runtime/sources/packed.h"
#include "runtime/sources/record.h"

namespace batchflow::test {

namespace {

void check_header(std::span<const std::byte> bytes) {
  sources::MemoryView view(bytes);
  sources::PackedHeader header;
  Bytes length = 0;
  if (sources::read_packed_header(view, header, length).empty())
    BF_CHECK(header.fields.problem().empty() && length <= bytes.size());
  sources::PackedFooter footer;
  if (sources::read_packed_footer(view, footer).empty())
    BF_CHECK(footer.index + footer.records * sources::kPackedEntry + sources::kPackedFooter ==
             bytes.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check_header(bytes);

  std::vector<std::byte> header;
  sources::append(header, sources::as_bytes(sources::kPackedMagic));
  sources::append_value(header, sources::kPackedVersion);
  sources::append_value(header, static_cast<std::uint32_t>(size));
  sources::append_value(header, log::crc32c(bytes, log::crc32c(header)));
  sources::append(header, bytes);
  check_header(header);

  const batch::BatchSpec spec{{{"label", batch::ElementType::i64, {}, false},
                               {"words", batch::ElementType::u16, {9, 2}, true},
                               {"bytes", batch::ElementType::u8, {1 << 20}, true}}};
  std::vector<std::byte> record;
  sources::append_value(record, std::uint64_t{size});
  sources::append_value(record, sources::packed_checksum(size, bytes));
  sources::append(record, bytes);
  sources::RecordParts parts;
  Bytes total = 0;
  if (parts.find(sources::RecordKind::packed, record, spec)) {
    for (const sources::Part& part : parts.parts()) total += part.bytes.size();
    BF_CHECK(parts.parts().size() == 3 && total + 16 == size);
  }
  return 0;
}

}  // namespace batchflow::test
