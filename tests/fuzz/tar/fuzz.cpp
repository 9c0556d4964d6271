// Tar files, and single samples of them.
#include "core/base/check.h"
#include "runtime/sources/record.h"
#include "runtime/sources/tar.h"

namespace batchflow::test {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  sources::MemoryView view(bytes);
  std::string long_name;
  sources::TarWalker walker(view, &long_name);
  sources::TarMember member;
  std::uint64_t before = 0;
  while (walker.next(member) == sources::TarStep::member) {
    BF_CHECK(member.begin >= before && member.data >= member.begin + sources::TarWalker::kBlock);
    BF_CHECK(member.data + member.bytes <= size && walker.at() > member.begin);
    BF_CHECK(member.name.size() <= sources::TarWalker::kNameMost);
    before = member.begin;
  }
  sources::RecordParts parts;
  if (!parts.find(sources::RecordKind::tar, bytes, {})) BF_CHECK(!parts.problem().empty());
  for (const sources::Part& part : parts.parts())
    BF_CHECK(part.bytes.empty() || (part.bytes.data() >= bytes.data() &&
                                    part.bytes.data() + part.bytes.size() <= bytes.data() + size));
  sources::stored_label(sources::RecordKind::tar, parts);
  return 0;
}

}  // namespace batchflow::test
