// Whether files may be pictures that a pipeline can decode, by the endings of their names. A file
// with an unknown ending may be one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/sources/sample_index.h"

namespace batchflow::sources {

// Whether files that end so, as ".jpg", are pictures that some build decodes.
bool is_called_picture(std::string_view ending);
// The same, that this build decodes.
bool is_picture_ending(std::string_view ending);
// True for those and for unknown endings.
bool may_be_decoded(std::string_view ending);
// How many samples that are whole files cannot be decoded. 0 for other records.
std::uint64_t undecodable_samples(const SampleIndex& index);
inline bool none_can_be_decoded(const SampleIndex& index) {
  return index.samples() > 0 && undecodable_samples(index) == index.samples();
}
// Text such as ".bmp (7), .tiff (1)": the most frequent first, and only a few. `all`: also endings
// of files that may be decoded.
std::string endings_text(const SampleIndex& index, bool all);

}  // namespace batchflow::sources
