// Writes any dataset in the packed format of docs/packed.md.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/sources/dataset_file.h"
#include "runtime/sources/pack_writer.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::sources {

// Packs a dataset. A whole file becomes the field `bytes`, a label the field `label`; other samples
// keep their fields. `left_out` are the keys of corrupt samples, in ascending order. Throws
// DatasetError, also for a corrupt sample that is not among them.
void pack_dataset(const SampleIndex& index, int root, const PackOptions& options,
                  const std::vector<std::uint64_t>& left_out, const std::function<bool()>& stop,
                  const IndexProgress& progress);

}  // namespace batchflow::sources
