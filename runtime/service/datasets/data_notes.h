// What a job's user should know of the data when the job begins. The job's script prints it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/prepare/pipeline.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::service {

// `is_default`: the job has named no pipeline. `corrupt_most`: how many corrupt samples end the
// job.
std::vector<std::string> data_notes(const sources::SampleIndex& index,
                                    const prepare::Pipeline& pipeline, bool is_default,
                                    std::uint64_t corrupt_most);

}  // namespace batchflow::service
