// Small samples that lie side by side in their files are read and kept in bundles: bundle b is
// samples [b << shift, (b + 1) << shift). Its bytes lie in one stretch of each file that it is in;
// kept in memory, these stretches follow one another.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/sources/sample_index.h"

namespace batchflow::sources {

// The shift for the samples of the index, which take `total` bytes. 0: they are too large, lie too
// far apart, or are files of their own; each is read alone. Throws DatasetError when it is to stop.
std::uint8_t bundle_shift(const SampleIndex& index, Bytes total, const StopAsked& stop = {});

// Where the bundle that begins with this sample lies: a stretch a file.
// REQUIRES: `first` begins a bundle of the index
void stretches(const SampleIndex& index, std::uint8_t shift, SampleId first,
               std::vector<Extent>& out);

// Where the sample begins in its bundle.
Bytes offset_in_bundle(const SampleIndex& index, std::uint8_t shift, SampleId sample);

}  // namespace batchflow::sources
