// Indices of documents as Megatron-LM's tools write them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/sources/megatron.h"
#include "tests/runtime/sources/dataset_files.h"

namespace batchflow::test {

// The tokens of each sequence, and the first sequence of each document with their number at the
// end. `code`: 8 for tokens of 16 bits, 4 for 32.
inline std::string megatron_index(std::uint8_t code, const std::vector<std::int32_t>& lengths,
                                  const std::vector<std::uint64_t>& documents,
                                  std::vector<std::uint64_t> offsets = {}) {
  std::string bytes(sources::kMegatronMagic);
  bytes += little(std::uint64_t{1}) + little(code) + little(std::uint64_t{lengths.size()}) +
           little(std::uint64_t{documents.size()});
  const std::uint64_t width = code == 8 || code == 3 ? 2 : code == 5 || code == 6 ? 8 : 4;
  std::uint64_t at = 0;
  for (const std::int32_t length : lengths) {
    bytes += little(length);
    if (offsets.size() < lengths.size()) {
      offsets.push_back(at);
      at += static_cast<std::uint64_t>(length) * width;
    }
  }
  for (const std::uint64_t offset : offsets) bytes += little(offset);
  for (const std::uint64_t first : documents) bytes += little(first);
  return bytes;
}

}  // namespace batchflow::test
