// The samples below a folder of a dataset, or of a file, as a range of samples.
#pragma once

#include <string>
#include <string_view>

#include "runtime/sources/sample_index.h"

namespace batchflow::sources {

// The samples of the files at `path` below the root, or in the folder of that name; none where
// there is nothing. Files stand in the order of their paths, and samples in that of their files.
SampleRange samples_at(const SampleIndex& index, std::string_view path);
// The names of what lies at the root, at most `most` of them, for messages.
std::string names_at_root(const SampleIndex& index, std::size_t most);

}  // namespace batchflow::sources
