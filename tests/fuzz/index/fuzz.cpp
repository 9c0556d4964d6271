// Index files with the right checksum: the answers of an accepted one are within its files.
#include <filesystem>
#include <string>

#include "core/base/check.h"
#include "core/log/frame_log.h"
#include "runtime/sources/index_file.h"

namespace batchflow::test {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  std::vector<std::byte> summed(bytes.begin(), bytes.end());
  if (size >= 4) {
    summed.resize(size - 4);
    sources::append_value(summed, log::crc32c(summed));
  }
  sources::IndexView view;
  if (!view.read(summed).empty()) return 0;
  for (std::uint64_t sample = 0; sample < view.head().samples; ++sample) {
    const sources::Extent extent = view.extent(sample);
    BF_CHECK(extent.file < view.files());
    BF_CHECK(extent.offset + extent.bytes <= view.file_bytes(extent.file));
    for (const auto& part : std::filesystem::path(view.path(extent.file))) BF_CHECK(part != "..");
    view.label(sample);
    BF_CHECK(view.name(sample).size() <= size + 24);
  }
  return 0;
}

}  // namespace batchflow::test
