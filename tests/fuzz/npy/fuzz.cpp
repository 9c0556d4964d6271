// Headers of NumPy files.
#include "core/base/check.h"
#include "runtime/sources/npy.h"

namespace batchflow::test {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sources::MemoryView view(std::as_bytes(std::span(data, size)));
  sources::NpyHeader header;
  if (!sources::read_npy_header(view, header).empty()) return 0;
  BF_CHECK(header.data <= size && header.shape.size() <= batch::Field::kDimensionsMost);
  return 0;
}

}  // namespace batchflow::test
