// Headers of NumPy files.
#include "core/check.h"
#include "runtime/sources/npy.h"

using namespace batchflow;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  MemoryView view(std::as_bytes(std::span(data, size)));
  NpyHeader header;
  if (!read_npy_header(view, header).empty()) return 0;
  BF_CHECK(header.data <= size && header.shape.size() <= Field::kDimensionsMost);
  return 0;
}
