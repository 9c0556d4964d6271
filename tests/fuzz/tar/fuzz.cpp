// Tar files, and single samples of them.
#include "core/check.h"
#include "runtime/sources/record.h"
#include "runtime/sources/tar.h"

using namespace batchflow;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  MemoryView view(bytes);
  std::string long_name;
  TarWalker walker(view, &long_name);
  TarMember member;
  std::uint64_t before = 0;
  while (walker.next(member) == TarStep::member) {
    BF_CHECK(member.begin >= before && member.data >= member.begin + TarWalker::kBlock);
    BF_CHECK(member.data + member.bytes <= size && walker.at() > member.begin);
    BF_CHECK(member.name.size() <= TarWalker::kNameMost);
    before = member.begin;
  }
  RecordParts parts;
  if (!parts.find(RecordKind::tar, bytes, {})) BF_CHECK(!parts.problem().empty());
  for (const Part& part : parts.parts())
    BF_CHECK(part.bytes.empty() || (part.bytes.data() >= bytes.data() &&
                                    part.bytes.data() + part.bytes.size() <= bytes.data() + size));
  stored_label(RecordKind::tar, parts);
  return 0;
}
