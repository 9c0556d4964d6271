// Fields and lists of names as bytes, for headers of packed files and for index files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/byte_codec.h"
#include "runtime/batch/batch_spec.h"

namespace batchflow::sources {

void put_text(std::string_view text, ByteWriter& out);
void put_texts(const std::vector<std::string>& texts, ByteWriter& out);
void put_spec(const batch::BatchSpec& spec, ByteWriter& out);

// These read untrusted bytes; `in` says whether they were sound. The spec may still be one that no
// batch can have.
std::string take_text(ByteReader& in);
std::vector<std::string> take_texts(ByteReader& in);
batch::BatchSpec take_spec(ByteReader& in);

}  // namespace batchflow::sources
