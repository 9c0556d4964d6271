// The index of Megatron-LM's documents, and a record of a sequence that documents were packed into.
#include "core/base/check.h"
#include "runtime/sources/megatron.h"
#include "runtime/sources/packed.h"
#include "runtime/sources/record.h"
#include "runtime/sources/sequence_record.h"

namespace batchflow::test {

namespace {

void check_index(std::span<const std::byte> bytes, Bytes tokens_bytes) {
  sources::MemoryView lengths(bytes), offsets(bytes), documents(bytes);
  sources::MegatronIndex index(lengths, offsets, documents);
  std::string problem = index.open(tokens_bytes);
  if (!problem.empty()) return;
  sources::MegatronIndex::Document document;
  Bytes end = 0;
  while (index.next(document, problem)) {
    BF_CHECK(document.offset == end);
    end += document.bytes;
    BF_CHECK(end <= tokens_bytes);
  }
  BF_CHECK(!problem.empty() || index.end() == end);
}

void check_sequence(std::span<const std::byte> bytes, bool whole) {
  std::vector<std::byte> record;
  sources::append_value(record, std::uint64_t{bytes.size()});
  sources::append_value(record, sources::packed_checksum(bytes.size(), bytes));
  sources::append(record, bytes);
  const batch::BatchSpec fields = sources::sequence_fields({16, whole});
  sources::RecordParts parts;
  if (!parts.find(sources::RecordKind::sequence, record, fields)) return;
  BF_CHECK(parts.parts().size() == fields.fields.size());
  for (const sources::Part& part : parts.parts()) BF_CHECK(part.elements() == 16);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check_index(bytes, 100);
  check_index(bytes, UINT64_MAX);
  check_sequence(bytes, true);
  check_sequence(bytes, false);
  return 0;
}

}  // namespace batchflow::test
