// The header of a NumPy file.
#pragma once

#include <string>

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

}  // namespace batchflow::sources
