// What the endings of files' names say of them: whether they may be pictures that a pipeline can
// decode. The names of files that say nothing are believed to be.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/sources/sample_index.h"

namespace batchflow {

// JPEG and PNG, and what its name does not tell.
bool may_be_decoded(std::string_view ending);
// Samples of whole files that cannot be. 0 for other records.
std::uint64_t undecodable_samples(const SampleIndex& index);
inline bool none_can_be_decoded(const SampleIndex& index) {
  return index.samples() > 0 && undecodable_samples(index) == index.samples();
}
// As ".bmp (7), .tiff (1)": the most first, and few of many. `all`: those that can be decoded, too.
std::string endings_text(const SampleIndex& index, bool all);

}  // namespace batchflow
