// The header of a NumPy file, which comes before the numbers of the array: reads it, and makes it.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "runtime/batch/batch_spec.h"
#include "runtime/sources/byte_view.h"

namespace batchflow::sources {

struct NpyHeader {
  batch::ElementType type = batch::ElementType::u8;
  std::uint64_t rows = 0;            // along axis 0
  std::vector<std::uint64_t> shape;  // of a row
  Bytes data = 0;                    // where the first row begins
};

// Reads a header of version 1, 2 or 3. Answers what is wrong and what to do; empty: nothing. The
// file may have fewer bytes than the header says.
std::string read_npy_header(ByteView& file, NpyHeader& header);

// Makes a header. `type`, `shape` and `order` as NumPy writes them: <i8, "(3, 4)", False.
inline std::string npy_head(std::string_view type, std::string_view shape, unsigned version = 1,
                            std::string_view order = "False") {
  std::string words =
      fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", type, order, shape);
  const std::size_t before = version == 1 ? 10 : 12;  // magic, version, length of the words
  constexpr std::size_t kMultiple = 64;
  words.resize((before + words.size() + kMultiple) / kMultiple * kMultiple - before - 1, ' ');
  words += '\n';
  std::string head = "\x93NUMPY";
  head += static_cast<char>(version);
  head += '\0';
  for (std::size_t i = 8; i < before; ++i) head += static_cast<char>(words.size() >> (i - 8) * 8);
  return head + words;
}

}  // namespace batchflow::sources
